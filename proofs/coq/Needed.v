(* What each side condition is for: a run without it that breaks the bound.  And runs that reach the bounds. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds Memory.
Import ListNotations.
Open Scope Z_scope.

Definition anything_fits (_ : list job) (_ : job) : bool := true.

Lemma linear_is_sensible : forall price w_p w_q, (forall u, 0 <= price u) -> 0 <= w_p -> 0 <= w_q ->
  sensible (linear price w_p w_q).
Proof.
  intros price w_p w_q P Wp Wq. unfold sensible, never_falls, linear; simpl.
  repeat split; intros; try lia; apply Z.mul_le_mono_nonneg_l; auto; apply Z.mul_le_mono_nonneg_l; lia.
Qed.

Definition one_and_two : tariff := linear (fun _ => 1) 1 2.

Lemma one_and_two_is_sensible : sensible one_and_two.
Proof. apply linear_is_sensible; intros; lia. Qed.

Ltac has_switches := split; [apply linear_is_sensible; intros; lia|simpl; unfold no_burst; repeat split; lia].

(* Client 0 asks for one token of prompt, n times, and is served at once. *)
Definition turn : list event := [Arrive 0 0 1 0 0; Pick 0 0; Finish 0].

Fixpoint turns (n : nat) : list event := match n with O => [] | Datatypes.S m => turns m ++ turn end.

(* Compute a run from a state of which only parts are known. *)
Ltac compute_run :=
  lazy -[Z.le Z.lt Z.leb Z.ltb Z.max Z.min Z.add Z.sub Z.mul Z.div Z.of_nat Z.opp Z.abs Z.compare Nat.eqb];
  rewrite ?Z.div_1_r, ?Z.mul_1_r.
Ltac compute_run_in H :=
  lazy -[Z.le Z.lt Z.leb Z.ltb Z.max Z.min Z.add Z.sub Z.mul Z.div Z.of_nat Z.opp Z.abs Z.compare Nat.eqb] in H.
Ltac decide_comparisons :=
  compute_run;
  repeat (match goal with
          | |- context [Z.leb ?a ?b] =>
              first [replace (Z.leb a b) with true by (symmetry; apply Z.leb_le; lia)
                    |replace (Z.leb a b) with false by (symmetry; apply Z.leb_gt; lia)]
          | |- context [Nat.eqb ?a ?b] =>
              first [replace (Nat.eqb a b) with true by (symmetry; apply Nat.eqb_eq; lia)
                    |replace (Nat.eqb a b) with false by (symmetry; apply Nat.eqb_neq; lia)]
          end; compute_run).
Ltac run_on R := eapply run_app; [exact R|decide_comparisons; reflexivity].
Ltac facts := decide_comparisons; repeat split; auto; lia.

(* --- the lift into an empty queue ------------------------------------------------------------------------------------ *)

Definition no_lift_when_empty : scheduler := plain one_and_two false anything_fits true false true true.

Lemma alone : forall n, exists s, run no_lift_when_empty initial (turns n) = Some s
  /\ waiting s = [] /\ running s = [] /\ counter s 0%nat = Z.of_nat n /\ counter s 1%nat = 0 /\ certificate s <= 1
  /\ virtual_time s <= Z.of_nat n.
Proof.
  induction n as [|n ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V)].
  - exists initial. simpl. repeat split; lia.
  - cbn [waiting running counter last_left certificate virtual_time] in W, B, C0, C1, U, V. subst W' B'. cbn [turns].
    destruct l as [l|]; (eexists; split; [run_on R|facts]).
Qed.

(* Client 0 was served while nobody else asked; client 1 comes, and has as much to its credit. *)
(* condition: FAIR-4 *)
Theorem without_the_lift_into_an_empty_queue_no_bound_holds : exists S, switched S true false true true /\
  forall n, exists s, reachable S s /\ waits 0 s = true /\ waits 1 s = true
    /\ certificate s + credit S <= 1 /\ counter s 0%nat - counter s 1%nat = Z.of_nat n.
Proof.
  exists no_lift_when_empty. split; [has_switches|].
  intros n. destruct (alone n) as ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V).
  cbn [waiting running counter last_left certificate virtual_time] in W, B, C0, C1, U, V. subst W' B'.
  pose (last := [Arrive 1 1 1 0 0; Arrive 0 0 1 0 0]).
  destruct l as [l|];
  (eexists; split; [exists (turns n ++ last); run_on R|facts]).
Qed.

(* --- the lift of victims ---------------------------------------------------------------------------------------------- *)

Definition no_lift_of_victims : scheduler := plain one_and_two false anything_fits true true false true.

Definition long_runner : job := Job 1 1 1 1 0 true 1 0 0 0.

Definition beside_it : list event := [Arrive 1 1 1 1 0; Pick 1 0; Arrive 0 0 1 0 0; Pick 0 0; Finish 0].

Lemma beside_a_long_runner : forall n, exists s, run no_lift_of_victims initial (beside_it ++ turns n) = Some s
  /\ waiting s = [] /\ running s = [long_runner] /\ last_left s = Some 0%nat
  /\ counter s 0%nat = 2 + Z.of_nat n /\ counter s 1%nat = 1 /\ certificate s <= 3
  /\ virtual_time s <= 2 + Z.of_nat n.
Proof.
  induction n as [|n ([c w W' B' l v u i] & R & W & B & L & C0 & C1 & U & V)].
  - eexists. split; [vm_compute; reflexivity|facts].
  - cbn [waiting running counter last_left certificate virtual_time] in W, B, L, C0, C1, U, V. subst W' B' l. cbn [turns]. rewrite app_assoc.
    eexists. split; [run_on R|facts].
Qed.

(* Client 1 is preempted, and comes back with what the other one got in the meantime to its credit. *)
(* condition: FAIR-5 *)
Theorem without_the_lift_of_victims_no_bound_holds : exists S, switched S true true false true /\
  forall n, exists s, reachable S s /\ waits 0 s = true /\ waits 1 s = true
    /\ certificate s + credit S <= 3 /\ counter s 0%nat - counter s 1%nat = 1 + Z.of_nat n.
Proof.
  exists no_lift_of_victims. split; [has_switches|].
  intros n. destruct (beside_a_long_runner n) as ([c w W' B' l v u i] & R & W & B & L & C0 & C1 & U & V).
  cbn [waiting running counter last_left certificate virtual_time] in W, B, L, C0, C1, U, V. subst W' B' l.
  pose (last := [Arrive 0 0 1 0 0; Preempt 1]).
  eexists. split; [exists ((beside_it ++ turns n) ++ last); run_on R|facts].
Qed.

(* --- stopping at the head --------------------------------------------------------------------------------------------- *)

Definition goes_on_past_the_head : scheduler := plain one_and_two false (reserves 4) false true true true.

Definition memory_is_held : list event := [Arrive 2 2 1 2 0; Pick 2 0; Arrive 1 1 1 1 0; Arrive 0 0 1 0 0; Pick 0 0; Finish 0].

Lemma past_the_head : forall n, exists s, run goes_on_past_the_head initial (memory_is_held ++ turns n) = Some s
  /\ waiting s = [Job 1 1 1 1 0 false 0 0 0 1] /\ running s = [Job 2 2 1 2 0 true 1 0 0 0]
  /\ counter s 0%nat = 2 + Z.of_nat n /\ counter s 1%nat = 1 /\ certificate s <= 5
  /\ virtual_time s <= 1.
Proof.
  induction n as [|n ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V)].
  - eexists. split; [vm_compute; reflexivity|facts].
  - cbn [waiting running counter last_left certificate virtual_time] in W, B, C0, C1, U, V. subst W' B'. cbn [turns]. rewrite app_assoc.
    eexists. split; [run_on R|facts].
Qed.

(* The request of client 1 does not fit while a third client holds the memory, and smaller ones pass it for ever. *)
(* condition: FAIR-11 *)
Theorem without_a_stop_at_the_head_no_bound_holds : exists S M, switched S false true true true
  /\ admits S = reserves M /\ forall n, exists s, reachable S s /\ waits 0 s = true /\ waits 1 s = true
    /\ certificate s + credit S <= 5 /\ counter s 0%nat - counter s 1%nat = 1 + Z.of_nat n.
Proof.
  exists goes_on_past_the_head, 4. split; [has_switches|split; [reflexivity|]].
  intros n. destruct (past_the_head n) as ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V).
  cbn [waiting running counter last_left certificate virtual_time] in W, B, C0, C1, U, V. subst W' B'.
  pose (last := [Arrive 0 0 1 0 0]).
  eexists. split; [exists ((memory_is_held ++ turns n) ++ last); run_on R|facts].
Qed.

(* --- refunds and the virtual time ------------------------------------------------------------------------------------- *)

Definition refunds_without_a_floor : scheduler := plain one_and_two false anything_fits true true true false.

(* Client 1 always has a request that waits; each is predicted to have an output. *)
Definition predicted_picks (n : nat) : list event := [Arrive (3 + n) 1 1 1 1; Pick (2 + n) 0].

Fixpoint all_predicted_picks (n : nat) : list event :=
  match n with O => [Arrive 2 1 1 1 1] | Datatypes.S m => all_predicted_picks m ++ predicted_picks m end.

Fixpoint predicted_jobs (n : nat) : list job :=
  match n with O => [] | Datatypes.S m => Job (2 + m) 1 1 1 1 true 1 1 0 (Z.of_nat (pred m)) :: predicted_jobs m end.

Fixpoint finishes (n : nat) : list event :=
  match n with O => [] | Datatypes.S m => Finish (2 + m) :: finishes m end.

Lemma nothing_is_owed : forall n, committed refunds_without_a_floor 1 (predicted_jobs n) = 0.
Proof. induction n as [|n IH]; [reflexivity|]. cbn [predicted_jobs committed]. rewrite IH. reflexivity. Qed.

Lemma it_pays : forall n, exists s, run refunds_without_a_floor initial (all_predicted_picks n) = Some s
  /\ waiting s = [Job (2 + n) 1 1 1 1 false 0 0 0 (Z.of_nat (pred n))] /\ running s = predicted_jobs n
  /\ counter s 0%nat = 0 /\ counter s 1%nat = 3 * Z.of_nat n /\ certificate s <= 3
  /\ virtual_time s <= 3 * Z.of_nat n /\ picks s = Z.of_nat n.
Proof.
  induction n as [|n ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V & I)].
  - eexists. split; [vm_compute; reflexivity|facts].
  - cbn [waiting running counter last_left certificate virtual_time picks] in W, B, C0, C1, U, V, I. subst W' B' i. cbn [all_predicted_picks].
    eexists. split; [run_on R|].
    pose proof (nothing_is_owed n) as P. compute_run_in P. facts.
Qed.

Lemma all_is_refunded : forall n s, running s = predicted_jobs n -> exists t,
  run refunds_without_a_floor s (finishes n) = Some t /\ waiting t = waiting s /\ certificate t = certificate s
  /\ counter t 0%nat = counter s 0%nat /\ counter t 1%nat = counter s 1%nat - 2 * Z.of_nat n.
Proof.
  induction n as [|n IH]; intros s B.
  - exists s. repeat split; auto; lia.
  - cbn [finishes run step]. rewrite B. cbn [predicted_jobs take id]. rewrite Nat.eqb_refl.
    set (j := Job _ _ _ _ _ _ _ _ _ _).
    destruct (IH (settled refunds_without_a_floor j (with_running (predicted_jobs n) s)) eq_refl)
      as (t & R & W & U & C0 & C1).
    exists t. rewrite R, W, U, C0, C1. split; [reflexivity|]. facts.
Qed.

(* Its predictions are too long: what comes back takes client 1 below all who wait. *)
(* condition: FAIR-13 *)
Theorem without_a_floor_of_refunds_no_bound_holds : exists S, switched S true true true false /\
  forall n, exists s, reachable S s /\ waits 0 s = true /\ waits 1 s = true
    /\ certificate s + credit S <= 3 /\ counter s 0%nat - counter s 1%nat = 2 * Z.of_nat n.
Proof.
  exists refunds_without_a_floor. split; [has_switches|].
  intros n. destruct (it_pays n) as ([c w W' B' l v u i] & R & W & B & C0 & C1 & U & V & I).
  cbn [waiting running counter last_left certificate virtual_time picks] in W, B, C0, C1, U, V, I. subst W' B' i.
  assert (R' : exists s, run refunds_without_a_floor initial (all_predicted_picks n ++ [Arrive 1 0 1 0 0]) = Some s
    /\ waits 0 s = true /\ waits 1 s = true /\ running s = predicted_jobs n /\ certificate s <= 3
    /\ counter s 0%nat = 3 * Z.of_nat n /\ counter s 1%nat = 3 * Z.of_nat n).
  { eexists. split; [run_on R|facts]. }
  destruct R' as (s & R' & W0 & W1 & B & U' & D0 & D1).
  destruct (all_is_refunded n s B) as (t & Rt & Wt & Ut & E0 & E1).
  exists t. unfold waits in *. rewrite Wt, Ut. split; [eexists; eapply run_app; eauto|].
  do 3 (split; [auto; change (credit _) with 0; lia|]); lia.
Qed.

(* --- w_p <= w_q ------------------------------------------------------------------------------------------------------- *)

Ltac run_it := split; [vm_compute; reflexivity|].
Ltac all_through := vm_compute; repeat split.
Ltac short_prompts :=
  intros name u p most guess H; simpl in H; repeat (destruct H as [H|H]; [inversion H; lia|]); destruct H.

(* As `the_constant_of_the_paper_holds_where_a_prompt_token_is_no_dearer` of Theorems.v has it, but for w_p <= w_q.  The difference is
   2U exactly, with the U of the closed form. *)
(* condition: FAIR-8 *)
Theorem where_a_prompt_token_is_dearer_the_constant_of_the_paper_is_too_small :
  exists S w_p w_q M L before events s t, sound S /\ costs S = linear (fun _ => 1) w_p w_q /\ credit S = 0
    /\ admits S = reserves M /\ by_chunk S = false /\ 0 <= L <= M /\ prompts_within L (before ++ events)
    /\ run S initial before = Some s /\ run S s events = Some t
    /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
    /\ 2 * Z.max (w_p * L) (w_q * M) < got 0 s t - got 1 s t
    /\ got 0 s t - got 1 s t = 2 * U_of_reservation w_p w_q M L.
Proof.
  exists (plain (linear (fun _ => 1) 2 1) false (reserves 2) true true true true), 2, 1, 2, 1,
    [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 10 1 1 1 0; Arrive 11 1 1 1 0;
     Pick 10 0; Serve 10; Finish 10],
    [Pick 0 0; Serve 0; Finish 0; Pick 1 0; Serve 1; Finish 1].
  do 2 eexists. split; [has_switches|]. do 4 (split; [reflexivity|]). split; [lia|]. split; [short_prompts|].
  do 2 run_it. do 2 (split; [all_through|]). vm_compute. split; reflexivity.
Qed.

(* --- reservation ------------------------------------------------------------------------------------------------------ *)

(* Memory for 6 tokens, prompts of 1: three requests of client 0 run together, and decode 8 tokens between two picks. *)
(* condition: FAIR-8 *)
Theorem with_peak_occupancy_the_constant_of_the_paper_is_too_small :
  exists S M L seats longest before events s t, sound S /\ costs S = one_and_two /\ credit S = 0
    /\ admits S = peak_fits M seats longest /\ by_chunk S = false /\ 0 <= L <= M /\ prompts_within L (before ++ events)
    /\ run S initial before = Some s /\ run S s events = Some t
    /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
    /\ 2 * Z.max (1 * L) (2 * M) < got 0 s t - got 1 s t.
Proof.
  exists (plain one_and_two false (peak_fits 6 3 5) true true true true), 6, 1, 3, 5%nat,
    [Arrive 10 1 1 5 0; Arrive 11 1 1 5 0; Arrive 0 0 1 4 0; Arrive 1 0 1 5 0; Arrive 2 0 1 2 0; Arrive 3 0 1 1 0;
     Arrive 4 0 1 1 0; Pick 10 0; Serve 10; Serve 10; Serve 10; Serve 10; Serve 10; Finish 10],
    [Pick 0 0; Serve 0; Serve 0; Serve 0; Serve 0; Finish 0; Pick 1 0; Pick 2 0; Pick 3 0;
     Serve 1; Serve 2; Serve 3; Finish 3; Serve 1; Serve 2; Finish 2; Serve 1; Serve 1; Serve 1; Finish 1].
  do 2 eexists. split; [has_switches|]. do 4 (split; [reflexivity|]). split; [lia|]. split; [short_prompts|].
  do 2 run_it. do 2 (split; [all_through|]). vm_compute. reflexivity.
Qed.

(* --- the bounds are reached --------------------------------------------------------------------------------------------- *)

Definition fair : scheduler := plain one_and_two false anything_fits true true true true.
Definition fair_by_chunk : scheduler := plain one_and_two true anything_fits true true true true.

(* reached: FAIR-7 *)
Theorem a_gap_of_U_is_reached : exists S s, sound S /\ reachable S s /\ waits 0 s = true /\ waits 1 s = true
  /\ 0 < certificate s /\ counter s 0%nat - counter s 1%nat = certificate s + credit S.
Proof.
  exists fair. eexists. split; [has_switches|]. split.
  { exists [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 10 1 1 1 0; Pick 0 0; Serve 0]. vm_compute. reflexivity. }
  vm_compute. repeat split; reflexivity.
Qed.

(* reached: FAIR-8 *)
Theorem a_difference_of_2U_is_reached : exists S before events s t, sound S
  /\ run S initial before = Some s /\ run S s events = Some t
  /\ throughout S (fun x => waits 0 x = true) s events /\ throughout S (fun x => waits 1 x = true) s events
  /\ 0 < certificate t /\ got 0 s t - got 1 s t = 2 * (certificate t + credit S).
Proof.
  exists fair,
    [Arrive 0 0 1 1 0; Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 10 1 1 1 0; Arrive 11 1 1 1 0;
     Pick 10 0; Serve 10; Finish 10],
    [Pick 0 0; Serve 0; Finish 0; Pick 1 0; Serve 1; Finish 1].
  do 2 eexists. split; [has_switches|]. do 2 run_it. do 2 (split; [all_through|]). vm_compute. split; reflexivity.
Qed.

(* Client 1 is owed U when client 0 begins to wait, takes U from the least counter to that of client 0, and U from there.
   A third client that waits keeps it from being lifted. *)
(* reached: FAIR-9 *)
Theorem a_lead_of_3U_is_reached : exists S before events s t, sound S
  /\ run S initial before = Some s /\ run S s events = Some t
  /\ throughout S (fun x => waits 0 x = true) s events
  /\ 0 < certificate t /\ got 1 s t - got 0 s t = 3 * (certificate t + credit S).
Proof.
  exists fair_by_chunk,
    [Arrive 10 1 1 1 0; Pick 10 0;
     Arrive 0 0 1 1 0; Pick 0 0; Compute 0 1; Serve 0; Finish 0;
     Arrive 1 0 1 1 0; Arrive 2 0 1 1 0; Arrive 20 2 1 1 0; Pick 1 0; Compute 1 1; Serve 1; Finish 1],
    [Compute 10 1; Serve 10; Finish 10;
     Arrive 11 1 1 1 0; Pick 11 0; Compute 11 1; Serve 11; Finish 11;
     Arrive 12 1 1 1 0; Pick 20 0; Pick 12 0; Compute 12 1; Serve 12].
  do 2 eexists. split; [has_switches|]. do 2 run_it. split; [all_through|]. vm_compute. split; reflexivity.
Qed.
