(* What is proved of Virtual Token Counter with all its side conditions (`sound`), in full.  S is a scheduler, s a state
   that it can come to, t the state after some more events.  U is the certificate of the run up to t: the most that a
   client was charged, or could still be charged, at a pick.  `Needed.v` has the other half: what the conditions are for,
   and that the bounds are reached. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds Memory.
Import ListNotations.
Open Scope Z_scope.

Lemma slack_of_one : forall S, sound S -> slack S = credit S.
Proof. intros S (_ & _ & E & _). unfold slack. lia. Qed.
Arguments slack_of_one {S}.

(* --- U of the run: any memory policy, any costs ------------------------------------------------------------------------ *)

(* bound: FAIR-7 *)
Theorem counters_of_clients_that_wait_differ_by_at_most_U : forall S s f g,
  sound S -> reachable S s -> waits f s = true -> waits g s = true ->
  Z.abs (counter s f - counter s g) <= certificate s + credit S.
Proof. intros S s f g So R F G. rewrite <- (slack_of_one So). exact (gap S 1 So s f g R F G). Qed.

(* bound: FAIR-8 *)
Theorem two_clients_that_wait_all_through_differ_by_at_most_2U : forall S s events t f g,
  sound S -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S).
Proof.
  intros S s events t f g So R H F G. rewrite <- (slack_of_one So). exact (difference S 1 So s events t f g R H F G).
Qed.

(* bound: FAIR-9 *)
Theorem who_waits_falls_at_most_3U_behind_anybody : forall S s events t f g,
  sound S -> reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  got g s t - got f s t <= 3 * (certificate t + credit S).
Proof. intros S s events t f g So R H F. rewrite <- (slack_of_one So). exact (lead S 1 So s events t f g R H F). Qed.

(* What a client got is the tokens that it paid for, weighted, times its price: a request is billed so. *)
(* bound: FAIR-10 *)
Theorem with_prices_it_is_priced_service_that_differs_by_at_most_2U_and_3U : forall S price w_p w_q s events t f,
  sound S -> costs S = linear price w_p w_q -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events ->
  (forall j, billed S j = price (owner j) * (w_p * paid_prompt j + w_q * paid_outputs j))
  /\ (forall g, got g s t - got f s t <= 3 * (certificate t + credit S))
  /\ (forall g, throughout S (fun x => waits g x = true) s events ->
      Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S)).
Proof.
  intros S price w_p w_q s events t f So Co R H F. rewrite <- (slack_of_one So). split; [|split].
  - intros j. unfold billed. rewrite Co. simpl. destruct (entered j); ring.
  - intros g. exact (lead S 1 So s events t f g R H F).
  - intros g G. exact (difference S 1 So s events t f g R H F G).
Qed.

(* s: a client has come whose counter is not above the virtual time, so it owes nothing, and until t it gets nothing. *)
(* bound: FAIR-18 *)
Theorem a_flood_does_not_drown_a_newcomer : forall S s events t f others,
  sound S -> reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  counter s f <= virtual_time s -> got f s t <= 0 ->
  all_got others s t <= Z.of_nat (length others) * (2 * (certificate t + credit S)).
Proof. intros S s events t f others So R H F New None. rewrite <- (slack_of_one So). exact (flood S 1 So s events t f others R H F New None). Qed.

(* bound: FAIR-13 *)
Theorem a_refund_is_what_was_paid_too_much_and_takes_nobody_who_waits_below_the_virtual_time : forall S s name e t,
  sound S -> reachable S s -> e = Finish name \/ e = Withdraw name -> step S s e = Some t ->
  (exists j, In j (waiting s ++ running s) /\ id j = name
    /\ counter t (owner j) = Z.max (counter s (owner j) - (billed S j - billed S (without_refund j)))
                                   (Z.min (counter s (owner j)) (virtual_time s)))
  /\ forall f, waits f t = true -> virtual_time t <= counter t f.
Proof.
  intros S s name e t So R E H. split.
  - destruct E as [-> | ->]; simpl in H;
      [destruct (take name (running s)) as [[j rest]|] eqn:T|destruct (take name (waiting s)) as [[j rest]|] eqn:T];
      try discriminate; inversion H; exists j; destruct (take_in _ _ _ _ T); pose proof (take_id _ _ _ _ T);
      unfold settled; destruct So as (_ & _ & _ & _ & _ & _ & _ & ->); simpl; rewrite set_same, in_app_iff; auto.
  - intros f F. refine (no_credit S 1 So t f _ F).
    apply (still_reachable S [e] s t R). cbn [run]. rewrite H. reflexivity.
Qed.

(* part: FAIR-17 *)
Theorem aging_picks_nobody_further_ahead_than_its_credit : forall S s name cached t,
  sound S -> step S s (Pick name cached) = Some t ->
  exists j m, In j (waiting s) /\ id j = name /\ least (counter s) (waiting s) = Some m
    /\ counter s (owner j) <= m + credit S.
Proof.
  intros S s name cached t So H. destruct (aging S 1 So s name cached t H) as (j & m & J & I & L & C).
  rewrite (slack_of_one So) in C. pose proof (mark_below S 1 So m). exists j, m. repeat split; auto. lia.
Qed.

(* --- deficit round robin: counters are compared in quanta of Q ------------------------------------------------------------- *)

(* bound: FAIR-15 *)
Theorem in_turns_of_a_quantum_two_that_wait_all_through_differ_by_less_than_2U_and_2Q : forall S Q s events t f g,
  sound_in_quanta S Q -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S + (Q - 1)).
Proof.
  intros S Q s events t f g So R H F G. pose proof (difference S Q So s events t f g R H F G) as D.
  destruct So as (_ & _ & E & _). unfold slack in D. lia.
Qed.

(* Whoever stands in the least round may be picked: by longest prefix, say.  Cached tokens are charged too. *)
(* bound: FAIR-16 *)
Theorem in_the_least_round_any_order_of_picks_keeps_the_same_bound : forall S Q s name cached j rest,
  sound_in_quanta S Q -> take name (waiting s) = Some (j, rest) -> admits S (running s) j = true ->
  (forall m, least (counter s) (waiting s) = Some m -> mark S (counter s (owner j)) = mark S m) ->
  step S s (Pick name cached) = Some (picked S j cached rest s)
  /\ forall events t f g, reachable S s -> run S s (Pick name cached :: events) = Some t ->
     throughout S (fun x => waits f x = true) s (Pick name cached :: events) ->
     throughout S (fun x => waits g x = true) s (Pick name cached :: events) ->
     Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S + (Q - 1)).
Proof.
  intros S Q s name cached j rest So T Ad M. split.
  - cbn [step]. rewrite T, Ad, andb_true_r. unfold in_turn. pose proof (quantum_positive S Q So) as P.
    destruct (take_in _ _ _ _ T) as [J _]. pose proof So as (_ & Cr & _ & _ & -> & _).
    destruct (least (counter s) (waiting s)) as [m|] eqn:L; [|apply least_none in L; rewrite L in J; destruct J].
    specialize (M m eq_refl). unfold mark in M. apply Z.mul_reg_r in M; [|lia].
    replace ((counter s (owner j) - credit S) / quantum S <=? m / quantum S) with true; [reflexivity|].
    symmetry. apply Z.leb_le. rewrite <- M. apply Z.div_le_mono; lia.
  - intros events t f g R H F G.
    eapply in_turns_of_a_quantum_two_that_wait_all_through_differ_by_less_than_2U_and_2Q; eauto.
Qed.

(* --- U in the sizes of memory and prompts: reservation for the whole lifetime ------------------------------------------- *)

(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_reservation_U_is_at_most_its_closed_form : forall S price most w_p w_q M L events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q -> 0 <= M -> 0 <= L ->
  by_chunk S = false -> admits S = reserves M -> prompts_within L events -> run S initial events = Some s ->
  certificate s <= most * (w_q * M + Z.max 0 (w_p - w_q) * L).
Proof.
  intros S price most w_p w_q M L events s Co Pr Wp Wq HM HL Ch Ad In R.
  exact (U_of_reserving S price most w_p w_q M L events s Co Pr Wp Wq HM HL Ch Ad In R).
Qed.

(* Several prompts of one client may be unpaid then. *)
(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem charged_by_the_chunk_U_is_at_most_the_dearer_token_times_M : forall S price most w_p w_q M events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q -> 0 <= M ->
  admits S = reserves M -> run S initial events = Some s ->
  certificate s <= most * (Z.max w_p w_q * M).
Proof.
  intros S price most w_p w_q M events s Co Pr Wp Wq HM Ad R.
  exact (U_of_reserving_by_chunk S price most w_p w_q M events s Co Pr Wp Wq HM Ad R).
Qed.

(* constant: FAIR-8 *)
Theorem where_a_prompt_token_is_no_dearer_the_closed_form_is_that_of_the_paper : forall w_p w_q M L,
  0 <= w_p <= w_q -> 0 <= L <= M -> w_q * M + Z.max 0 (w_p - w_q) * L = Z.max (w_p * L) (w_q * M).
Proof. exact U_is_that_of_the_paper. Qed.

(* Theorem 4.4 of Sheng et al. as it is quoted, with what it needs. *)
(* constant: FAIR-8 *)
Theorem the_constant_of_the_paper_holds_where_a_prompt_token_is_no_dearer :
  forall S w_p w_q M L before events s t f g,
  sound S -> costs S = linear (fun _ => 1) w_p w_q -> credit S = 0 -> by_chunk S = false -> admits S = reserves M ->
  0 <= w_p <= w_q -> 0 <= L <= M -> prompts_within L (before ++ events) ->
  run S initial before = Some s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * Z.max (w_p * L) (w_q * M).
Proof.
  intros S w_p w_q M L before events s t f g So Co Cr Ch Ad Ws Ls In R H F G.
  rewrite <- U_is_that_of_the_paper by auto.
  pose proof (difference S 1 So s events t f g (ex_intro _ before R) H F G) as D. rewrite (slack_of_one So) in D.
  pose proof (U_of_reserving S (fun _ => 1) 1 w_p w_q M L (before ++ events) t Co ltac:(intros; lia) ltac:(lia) ltac:(lia)
    ltac:(lia) ltac:(lia) Ch Ad In (run_app _ _ _ _ _ _ R H)) as U.
  lia.
Qed.

(* --- what is really held at most fits: more can be owed than memory has tokens ------------------------------------------- *)

(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_peak_occupancy_U_is_at_most_harmonic : forall S price most w_p w_q M L seats longest events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> 0 <= seats -> by_chunk S = false -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> run S initial events = Some s ->
  certificate s <= most * (w_p * L + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s Co Pr Wp Wq HM HL HK Ch Ad In R.
  exact (U_of_peak_occupancy S price most w_p w_q M L seats longest events s Co Pr Wp Wq HM HL HK Ch Ad In R).
Qed.

(* Prompts that are charged by the chunk; each request asks for an output. *)
(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_peak_occupancy_and_prompts_by_the_chunk_U_is_at_most_harmonic :
  forall S price most w_p w_q M L seats longest events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= seats -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> asks_for_outputs 1 events -> run S initial events = Some s ->
  certificate s <= most * (w_p * M + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s Co Pr Wp Wq HM HK Ad In One R.
  exact (U_of_peak_occupancy_by_chunk S price most w_p w_q M L seats longest events s Co Pr Wp Wq HM HK Ad In One R).
Qed.
