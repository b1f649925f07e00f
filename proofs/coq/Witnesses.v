(* Runs of which the hypotheses of the theorems hold, and in which something happens: none of them is empty. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds Memory Tokens Patience Theorems Needed.
Import ListNotations.
Open Scope Z_scope.

Ltac within_limits := intros name u p most guess H; simpl in H; repeat (destruct H as [H|H]; [inversion H; lia|]); destruct H.

(* Client 1 pays twice as much.  Both wait all through, and both are served. *)
Definition dear (u : nat) : Z := if Nat.eqb u 1 then 2 else 1.

(* witness: counters_of_clients_that_wait_differ_by_at_most_U, two_clients_that_wait_all_through_differ_by_at_most_2U, who_waits_falls_at_most_3U_behind_anybody, what_a_client_got_is_its_price_times_the_tokens_that_were_delivered, with_prices_it_is_priced_service_that_differs_by_at_most_2U_and_3U *)
Theorem two_clients_with_prices_may_wait_all_through_and_be_served : exists S before s events t, sound S
  /\ costs S = linear dear 1 2 /\ predicts_nothing (before ++ events)
  /\ run S initial before = Some s /\ run S s events = Some t
  /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
  /\ got 0 s t = 3 /\ got 1 s t = 8
  /\ delivered S (inputs_of S 1) s events = 2 /\ delivered S (outputs_of 1) s events = 1.
Proof.
  exists (plain (linear dear 1 2) false anything_fits true true true true),
    [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 10 1 2 1 0; Arrive 11 1 1 1 0]. eexists.
  exists [Pick 0 0; Serve 0; Pick 10 0; Serve 10]. eexists.
  split; [split; [apply linear_is_sensible; try lia; intros u; unfold dear; destruct (Nat.eqb u 1); lia
                 |simpl; unfold no_burst; repeat split; lia]|].
  split; [reflexivity|]. split; [within_limits|]. do 2 run_it. do 2 (split; [all_through|]).
  vm_compute. repeat split; reflexivity.
Qed.

(* Client 0 has queued four requests when client 1 comes, and is served two more times before it. *)
(* witness: a_flood_does_not_drown_a_newcomer *)
Theorem a_newcomer_that_owes_nothing_may_find_a_flood : exists S s events t, sound S
  /\ reachable S s /\ run S s events = Some t /\ throughout S (fun x => waits 1 x = true) s events
  /\ counter s 1%nat <= virtual_time s /\ got 1 s t <= 0 /\ all_got [0%nat] s t = 3 /\ certificate t = 3.
Proof.
  exists fair. eexists. exists [Pick 1 0; Serve 1]. eexists. split; [has_switches|]. split.
  { exists [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 3 0 1 1 0; Arrive 10 1 1 1 0]. vm_compute. reflexivity. }
  run_it. split; [all_through|]. vm_compute. repeat split; try reflexivity; discriminate.
Qed.

(* Six outputs were predicted and none came, but the virtual time has gone on to 1: of 12 that were paid 12 are due, and
   the counter stops there. *)
(* witness: a_refund_is_what_was_paid_too_much_and_takes_nobody_who_waits_below_the_virtual_time *)
Theorem a_refund_may_be_cut_at_the_virtual_time : exists S s t, sound S /\ reachable S s
  /\ step S s (Finish 1) = Some t /\ waits 1 t = true
  /\ counter s 1%nat = 13 /\ virtual_time s = 2 /\ counter t 1%nat = 2.
Proof.
  exists fair. do 2 eexists. split; [has_switches|]. split.
  { exists [Arrive 0 0 1 0 0; Arrive 1 1 1 6 6; Arrive 2 1 1 0 0; Pick 1 0; Arrive 3 0 1 0 0; Pick 0 0; Arrive 4 0 1 0 0;
            Pick 3 0; Arrive 5 0 1 0 0; Pick 4 0]. vm_compute. reflexivity. }
  run_it. vm_compute. repeat split; reflexivity.
Qed.

(* Client 0 has paid 3 and client 1 nothing, and client 0 is picked: with a credit of 3, as its request has seen one pick.
   Were two to be seen, it would not be. *)
Definition prefers_after (picks_seen : Z) : scheduler :=
  Scheduler one_and_two 3 picks_seen no_burst 1 false anything_fits no_caps true true true true.

Definition one_is_ahead : list event := [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 10 1 1 1 0; Pick 0 0; Serve 0].

(* witness: aging_prefers_by_its_credit_and_only_who_has_seen_so_many_picks *)
Theorem aging_may_pick_whoever_is_ahead_by_its_credit_once_it_has_waited : exists s t, sound (prefers_after 1)
  /\ credit (prefers_after 1) = 3 /\ run (prefers_after 1) initial one_is_ahead = Some s
  /\ step (prefers_after 1) s (Pick 1 0) = Some t /\ counter s 0%nat = 3
  /\ least (counter s) (ready (prefers_after 1) s) = Some 0
  /\ run (prefers_after 2) initial one_is_ahead = Some s /\ step (prefers_after 2) s (Pick 1 0) = None.
Proof. do 2 eexists. split; [has_switches|]. split; [reflexivity|]. do 2 run_it. vm_compute. repeat split; reflexivity. Qed.

(* Client 1 has nothing to pay, but one seat, which is taken: client 0 is picked past it, and U is larger by 3. *)
Definition one_seat_each (_ running : list job) (u : nat) : bool := existsb (fun j => Nat.eqb (owner j) u) running.

(* witness: counters_of_clients_that_wait_differ_by_at_most_U, two_clients_that_wait_all_through_differ_by_at_most_2U *)
Theorem whom_a_cap_holds_is_passed_over_and_U_is_larger_by_that : exists S s t, sound S
  /\ reachable S s /\ holds S (waiting s) (running s) 1 = true /\ waits 1 s = true /\ counter s 1%nat = 1
  /\ counter s 0%nat = 4 /\ passed_over S s = 3 /\ certificate s = 3 /\ step S s (Pick 2 0) = Some t /\ certificate t = 6.
Proof.
  exists (Scheduler one_and_two 0 0 no_burst 1 false anything_fits one_seat_each true true true true). do 2 eexists.
  split; [has_switches|]. split.
  { exists [Arrive 10 1 1 0 0; Arrive 11 1 1 0 0; Pick 10 0; Arrive 0 0 1 1 0; Pick 0 0; Serve 0; Finish 0; Arrive 2 0 1 1 0].
    vm_compute. reflexivity. }
  vm_compute. repeat split; reflexivity.
Qed.

(* Lane 0 has a share of 2 and lane 1 one of 1 and a burst of 4: it comes back 4 below the virtual time. *)
Definition inverse_share (u : nat) : Z := if Nat.eqb u 0 then 1 else 2.
Definition share_of (u : nat) : Z := if Nat.eqb u 0 then 2 else 1.
Definition burst_of (u : nat) : Z := if Nat.eqb u 1 then 4 else 0.

(* witness: two_lanes_that_wait_all_through_differ_by_at_most_2U_and_their_bursts, a_lane_that_waits_falls_at_most_3U_and_its_burst_behind_any_other, a_lane_that_waits_gets_its_share_of_all_that_is_charged_less_a_constant, a_lane_that_waits_gets_its_share_of_all_tokens_less_a_constant *)
Theorem lanes_may_come_back_below_the_virtual_time_and_be_served : exists S before s events t, sound_in_lanes S 4
  /\ costs S = linear inverse_share 1 2 /\ predicts_nothing (before ++ events)
  /\ (forall g, In g [1; 0]%nat -> 0 <= share_of g /\ inverse_share g * share_of g = 2)
  /\ run S initial before = Some s /\ run S s events = Some t
  /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
  /\ virtual_time s = 7 /\ counter s 1%nat = 3 /\ got 0 s t = 3 /\ got 1 s t = 12.
Proof.
  exists (Scheduler (linear inverse_share 1 2) 0 0 burst_of 1 false anything_fits no_caps true true true true),
    [Arrive 0 0 2 1 0; Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 3 0 1 1 0; Pick 0 0; Serve 0; Finish 0; Pick 1 0; Serve 1;
     Finish 1; Arrive 11 1 1 1 0; Arrive 12 1 1 1 0; Arrive 13 1 1 1 0].
  eexists. exists [Pick 11 0; Serve 11; Pick 2 0; Serve 2; Pick 12 0; Serve 12]. eexists.
  split; [split; [apply linear_is_sensible; try lia; intros u; unfold inverse_share; destruct (Nat.eqb u 0); lia|]|].
  { simpl. repeat split; try lia; unfold burst_of; destruct (Nat.eqb u 1); lia. }
  split; [reflexivity|]. split; [within_limits|]. split.
  { intros g [<-|[<-|[]]]; vm_compute; split; congruence. }
  do 2 run_it. do 2 (split; [all_through|]). vm_compute. repeat split; reflexivity.
Qed.

(* Quanta of 5: client 0 has paid 3, client 1 nothing, and client 0 keeps its turn. *)
(* witness: in_turns_of_a_quantum_two_that_wait_all_through_differ_by_less_than_2U_and_2Q, in_the_least_round_any_order_of_picks_keeps_the_same_bound *)
Theorem whoever_is_ahead_within_its_quantum_keeps_its_turn : exists S s j rest t, sound_in_quanta S 5
  /\ reachable S s /\ take 1 (waiting s) = Some (j, rest) /\ admits S (running s) j = true
  /\ holds S (waiting s) (running s) (owner j) = false
  /\ run S s [Pick 1 0; Serve 1] = Some t
  /\ throughout S (fun x => waits 0 x = true) s [Pick 1 0; Serve 1]
  /\ throughout S (fun x => waits 1 x = true) s [Pick 1 0; Serve 1]
  /\ counter s 0%nat = 3 /\ counter s 1%nat = 0 /\ got 0 s t = 3.
Proof.
  exists (Scheduler one_and_two 0 0 no_burst 5 false anything_fits no_caps true true true true). do 4 eexists.
  split; [has_switches|]. split.
  { exists [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 10 1 1 1 0; Pick 0 0; Serve 0].
    vm_compute. reflexivity. }
  run_it. do 2 (split; [reflexivity|]). run_it. do 2 (split; [all_through|]). vm_compute. repeat split; reflexivity.
Qed.

(* Memory of 6 is reserved whole by one request; U is the closed form, and that of the paper. *)
(* witness: with_reservation_U_is_at_most_its_closed_form, charged_by_the_chunk_U_is_at_most_the_dearer_token_times_M, the_constant_of_the_paper_holds_where_a_prompt_token_is_no_dearer *)
Theorem with_reservation_U_may_be_near_its_closed_form : exists S before events s t, sound S
  /\ costs S = linear (fun _ => 1) 1 2 /\ credit S = 0 /\ by_chunk S = false /\ admits S = reserves 6
  /\ prompts_within 1 (before ++ events) /\ run S initial before = Some s /\ run S s events = Some t
  /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
  /\ certificate t = 11 /\ got 0 s t - got 1 s t = 11.
Proof.
  exists (plain one_and_two false (reserves 6) true true true true),
    [Arrive 0 0 1 5 0; Arrive 1 0 1 5 0; Arrive 10 1 1 5 0], [Pick 0 0; Serve 0; Serve 0; Serve 0; Serve 0; Serve 0].
  do 2 eexists. split; [has_switches|]. do 4 (split; [reflexivity|]). split; [within_limits|].
  do 2 run_it. do 2 (split; [all_through|]). vm_compute. split; reflexivity.
Qed.

(* Three of a client run together, whose outputs are 5, 2 and 1: 8 in all, with memory for 6 tokens. *)
Definition three_at_once : list event :=
  [Arrive 1 0 1 5 0; Arrive 2 0 1 2 0; Arrive 3 0 1 1 0; Pick 1 0; Pick 2 0; Pick 3 0].

(* witness: with_peak_occupancy_U_is_at_most_harmonic *)
Theorem with_peak_occupancy_more_may_be_owed_than_memory_holds : exists S s, costs S = one_and_two
  /\ by_chunk S = false /\ admits S = peak_fits 6 3 5 /\ arrivals_within 1 5 three_at_once
  /\ run S initial three_at_once = Some s /\ certificate s = 17 /\ 1 * 1 + 2 * harmonic 6 3 5 = 21.
Proof.
  exists (plain one_and_two false (peak_fits 6 3 5) true true true true). eexists.
  do 3 (split; [reflexivity|]). split; [within_limits|]. run_it. vm_compute. split; reflexivity.
Qed.

(* The same, where nothing of the prompts is charged yet. *)
(* witness: with_peak_occupancy_and_prompts_by_the_chunk_U_is_at_most_harmonic *)
Theorem with_prompts_by_the_chunk_all_of_them_may_be_owed : exists S s, costs S = one_and_two
  /\ by_chunk S = true /\ admits S = peak_fits 6 3 5 /\ arrivals_within 1 5 three_at_once
  /\ asks_for_outputs 1 three_at_once
  /\ run S initial three_at_once = Some s /\ certificate s = 19 /\ 1 * 6 + 2 * harmonic 6 3 5 = 26.
Proof.
  exists (plain one_and_two true (peak_fits 6 3 5) true true true true). eexists.
  do 3 (split; [reflexivity|]). split; [within_limits|]. split; [within_limits|]. run_it. vm_compute. split; reflexivity.
Qed.
