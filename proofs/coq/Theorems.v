(* What is proved of Virtual Token Counter with all its side conditions (`sound`), in full.  S is a scheduler, s a state
   that it can come to, t the state after some more events.  U is the certificate of the run up to t: the most that a
   client was charged, or could still be charged, at a pick, and beside it what was passed over there because a cap held it.
   `Needed.v` has the other half: what the conditions are for, and that the bounds are reached. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds Memory Tokens Patience.
Import ListNotations.
Open Scope Z_scope.

Lemma slack_of_one : forall S, sound S -> slack S = credit S.
Proof. intros S (_ & _ & E & _). unfold slack. lia. Qed.
Arguments slack_of_one {S}.

Lemma slack_of_lanes : forall S B, sound_in_lanes S B -> slack S = credit S.
Proof. intros S B (_ & _ & E & _). unfold slack. lia. Qed.
Arguments slack_of_lanes {S B}.

(* --- U of the run: any memory policy, any costs ------------------------------------------------------------------------ *)

(* bound: FAIR-7 *)
Theorem counters_of_clients_that_wait_differ_by_at_most_U : forall S s f g,
  sound S -> reachable S s -> waits f s = true -> waits g s = true ->
  Z.abs (counter s f - counter s g) <= certificate s + credit S.
Proof. intros S s f g So R F G. rewrite <- (slack_of_one So). pose proof (gap S 1 0 So s f g R F G). lia. Qed.

(* bound: FAIR-8 *)
Theorem two_clients_that_wait_all_through_differ_by_at_most_2U : forall S s events t f g,
  sound S -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S).
Proof.
  intros S s events t f g So R H F G. rewrite <- (slack_of_one So).
  pose proof (difference S 1 0 So s events t f g R H F G). lia.
Qed.

(* bound: FAIR-9 *)
Theorem who_waits_falls_at_most_3U_behind_anybody : forall S s events t f g,
  sound S -> reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  got g s t - got f s t <= 3 * (certificate t + credit S).
Proof.
  intros S s events t f g So R H F. rewrite <- (slack_of_one So). pose proof (lead S 1 0 So s events t f g R H F). lia.
Qed.

(* Where nothing is predicted, service is the tokens that were delivered, weighted, times the price of the client. *)
(* part: FAIR-8, FAIR-9, FAIR-10 *)
Theorem what_a_client_got_is_its_price_times_the_tokens_that_were_delivered : forall S price w_p w_q before s events t u,
  costs S = linear price w_p w_q -> predicts_nothing (before ++ events) ->
  run S initial before = Some s -> run S s events = Some t ->
  got u s t = price u * (w_p * delivered S (inputs_of S u) s events + w_q * delivered S (outputs_of u) s events).
Proof.
  intros S price w_p w_q before s events t u Co N R H.
  exact (from_the_begin S price w_p w_q Co before events s t N R H u).
Qed.

(* So it is priced tokens that differ by so much. *)
(* bound: FAIR-10 *)
Theorem with_prices_it_is_priced_service_that_differs_by_at_most_2U_and_3U :
  forall S price w_p w_q before s events t f,
  sound S -> costs S = linear price w_p w_q -> predicts_nothing (before ++ events) ->
  run S initial before = Some s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  let priced u := price u * tokens S w_p w_q u s events in
  (forall g, priced g - priced f <= 3 * (certificate t + credit S))
  /\ (forall g, throughout S (fun x => waits g x = true) s events ->
      Z.abs (priced f - priced g) <= 2 * (certificate t + credit S)).
Proof.
  intros S price w_p w_q before s events t f So Co N R H F priced.
  pose proof (from_the_begin S price w_p w_q Co before events s t N R H) as P.
  assert (Rs : reachable S s) by (exists before; exact R).
  split; intros g; [|intros G]; unfold priced; rewrite <- !P.
  - apply (who_waits_falls_at_most_3U_behind_anybody S s events t f g So Rs H F).
  - apply (two_clients_that_wait_all_through_differ_by_at_most_2U S s events t f g So Rs H F G).
Qed.

(* s: a client has come whose counter is not above the virtual time, so it owes nothing, and until t it gets nothing. *)
(* bound: FAIR-18 *)
Theorem a_flood_does_not_drown_a_newcomer : forall S s events t f others,
  sound S -> reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  counter s f <= virtual_time s -> got f s t <= 0 ->
  all_got others s t <= Z.of_nat (length others) * (2 * (certificate t + credit S)).
Proof.
  intros S s events t f others So R H F New None. rewrite <- (slack_of_one So).
  pose proof (flood S 1 0 So s events t f others R H F New None). lia.
Qed.

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
      unfold settled; destruct So as (_ & _ & _ & _ & _ & _ & _ & _ & ->); simpl; rewrite set_same, in_app_iff; auto.
  - intros f F. assert (Rt : reachable S t) by (apply (still_reachable S [e] s t R); cbn [run]; rewrite H; reflexivity).
    pose proof (no_credit S 1 0 So t f Rt F). pose proof (bursts S 1 0 So f). lia.
Qed.

(* m: the least counter of those whom no cap holds.  k has waited since the last of `before`, and seen `patience` picks. *)
(* bound: FAIR-17 *)
Theorem aging_prefers_by_its_credit_and_only_who_has_seen_so_many_picks : forall S events s name cached t,
  sound S -> run S initial events = Some s -> step S s (Pick name cached) = Some t ->
  exists j m, In j (waiting s) /\ id j = name /\ least (counter s) (ready S s) = Some m
    /\ counter s (owner j) <= m + credit S
    /\ (m < counter s (owner j) -> exists k before after, owner k = owner j /\ events = before ++ after
        /\ (exists b, run S initial before = Some b /\ throughout S (fun x => In k (waiting x)) b after)
        /\ patience S <= picks_in after).
Proof.
  intros S events s name cached t So R. cbn [step].
  destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
  destruct (in_turn S j s) eqn:Turn; [|discriminate]. intros _.
  destruct (in_turn_is S 1 0 So _ _ Turn) as (m & L & C & _ & Young). exists j, m.
  destruct (take_in _ _ _ _ T). pose proof (take_id _ _ _ _ T).
  pose proof (mark_below S 1 0 So m) as Bm. rewrite (slack_of_one So) in C. do 4 (split; [auto; lia|]). intros Ahead.
  destruct (preferred S (owner j) s) eqn:P.
  - unfold preferred in P. apply existsb_exists in P. destruct P as (k & K & P).
    apply andb_true_iff in P. rewrite Nat.eqb_eq, Z.leb_le in P. destruct P as [O P].
    destruct (what_it_has_seen S events s k R K) as (before & after & E & W & Seen).
    exists k, before, after. rewrite <- Seen. auto.
  - specialize (Young eq_refl). pose proof (mark_below S 1 0 So (counter s (owner j))).
    destruct So as (_ & _ & One & _). rewrite One in *. lia.
Qed.

(* --- lanes: an owner is a lane, its price the inverse of its share, and it comes back with a burst of at most B ------------ *)

(* part: LANE-1, LANE-3 *)
Theorem two_lanes_that_wait_all_through_differ_by_at_most_2U_and_their_bursts : forall S B s events t f g,
  sound_in_lanes S B -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S + B).
Proof.
  intros S B s events t f g So R H F G. rewrite <- (slack_of_lanes So). exact (difference S 1 B So s events t f g R H F G).
Qed.

(* part: LANE-1 *)
Theorem a_lane_that_waits_falls_at_most_3U_and_its_burst_behind_any_other : forall S B s events t f g,
  sound_in_lanes S B -> reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  got g s t - got f s t <= 3 * (certificate t + credit S + B).
Proof.
  intros S B s events t f g So R H F. rewrite <- (slack_of_lanes So). exact (lead S 1 B So s events t f g R H F).
Qed.

Fixpoint all_of (lanes : list nat) (amount : nat -> Z) : Z :=
  match lanes with [] => 0 | g :: others => amount g + all_of others amount end.

Lemma weighed : forall (share gets : nat -> Z) most ours others,
  (forall g, In g others -> 0 <= share g /\ gets g - ours <= most) ->
  all_of others (fun g => share g * gets g) - all_of others share * ours <= all_of others share * most.
Proof.
  induction others as [|g others IH]; intros A; cbn [all_of]; [lia|].
  specialize (IH ltac:(intros; apply A; right; auto)). destruct (A g (or_introl eq_refl)). nia.
Qed.

(* The service of each lane is charged by the inverse of its share: times the share it is the same measure for all. *)
(* bound: LANE-1 *)
Theorem a_lane_that_waits_gets_its_share_of_all_that_is_charged_less_a_constant : forall S B share s events t f others,
  sound_in_lanes S B -> (forall g, In g (f :: others) -> 0 <= share g) ->
  reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  let shares := all_of (f :: others) share in
  all_of (f :: others) (fun g => share g * got g s t) - shares * got f s t
  <= (shares - share f) * (3 * (certificate t + credit S + B)).
Proof.
  intros S B share s events t f others So P R H F shares. unfold shares. cbn [all_of].
  pose proof (weighed share (fun g => got g s t) (3 * (certificate t + credit S + B)) (got f s t) others) as A.
  cbn beta in A. assert (D : forall g, In g others -> 0 <= share g /\ got g s t - got f s t <= 3 * (certificate t + credit S + B)).
  { intros g G. split; [apply P; right; auto|].
    apply (a_lane_that_waits_falls_at_most_3U_and_its_burst_behind_any_other S B s events t f g So R H F). }
  specialize (A D). lia.
Qed.

(* In tokens, where a price times a share is the same W for each lane: of all the service its part is its share of the sum
   of shares, and of that no more is missing than (1 - share/sum)·3(U + A + B)/price. *)
(* bound: LANE-1 *)
Theorem a_lane_that_waits_gets_its_share_of_all_tokens_less_a_constant :
  forall S B price share w_p w_q W before s events t f others,
  sound_in_lanes S B -> costs S = linear price w_p w_q -> predicts_nothing (before ++ events) ->
  (forall g, In g (f :: others) -> 0 <= share g /\ price g * share g = W) ->
  run S initial before = Some s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  let service u := tokens S w_p w_q u s events in
  let shares := all_of (f :: others) share in
  W * (share f * all_of (f :: others) service - shares * service f)
  <= share f * ((shares - share f) * (3 * (certificate t + credit S + B))).
Proof.
  intros S B price share w_p w_q W before s events t f others So Co N P R H F service shares.
  pose proof (from_the_begin S price w_p w_q Co before events s t N R H) as T.
  pose proof (a_lane_that_waits_gets_its_share_of_all_that_is_charged_less_a_constant S B share s events t f others So
    ltac:(intros; apply P; auto) ltac:(exists before; auto) H F) as A. cbn zeta in A. fold shares in A.
  assert (E : forall lanes, (forall g, In g lanes -> In g (f :: others)) ->
    all_of lanes (fun g => share g * got g s t) = W * all_of lanes service).
  { induction lanes as [|g lanes IH]; intros L; cbn [all_of]; [lia|].
    rewrite IH, T by (intros q Q; apply L; right; exact Q).
    destruct (P g (L g (or_introl eq_refl))) as [_ <-]. unfold service. ring. }
  rewrite E, T in A by auto. destruct (P f (or_introl eq_refl)) as [Sf <-]. fold (service f) in A.
  replace (price f * share f * (share f * all_of (f :: others) service - shares * service f))
    with (share f * (price f * share f * all_of (f :: others) service - shares * (price f * service f))) by ring.
  apply Z.mul_le_mono_nonneg_l; auto.
Qed.

(* --- deficit round robin: counters are compared in quanta of Q ------------------------------------------------------------- *)

(* bound: FAIR-15 *)
Theorem in_turns_of_a_quantum_two_that_wait_all_through_differ_by_less_than_2U_and_2Q : forall S Q s events t f g,
  sound_in_quanta S Q -> reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S + (Q - 1)).
Proof.
  intros S Q s events t f g So R H F G. pose proof (difference S Q 0 So s events t f g R H F G) as D.
  destruct So as (_ & _ & E & _). unfold slack in D. lia.
Qed.

(* Whoever stands in the least round may be picked: by longest prefix, say.  Cached tokens are charged too. *)
(* bound: FAIR-16 *)
Theorem in_the_least_round_any_order_of_picks_keeps_the_same_bound : forall S Q s name cached j rest,
  sound_in_quanta S Q -> take name (waiting s) = Some (j, rest) -> admits S (running s) j = true ->
  holds S (waiting s) (running s) (owner j) = false ->
  (forall m, least (counter s) (ready S s) = Some m -> mark S (counter s (owner j)) = mark S m) ->
  step S s (Pick name cached) = Some (picked S j cached rest s)
  /\ forall events t f g, reachable S s -> run S s (Pick name cached :: events) = Some t ->
     throughout S (fun x => waits f x = true) s (Pick name cached :: events) ->
     throughout S (fun x => waits g x = true) s (Pick name cached :: events) ->
     Z.abs (got f s t - got g s t) <= 2 * (certificate t + credit S + (Q - 1)).
Proof.
  intros S Q s name cached j rest So T Ad Free M. split.
  - cbn [step]. rewrite T, Ad, andb_true_r. unfold in_turn. pose proof (quantum_positive S Q 0 So) as P.
    destruct (take_in _ _ _ _ T) as [J _]. pose proof So as (_ & Cr & _ & _ & _ & -> & _).
    assert (In j (ready S s)) as K by (apply filter_In; rewrite Free; auto).
    destruct (least (counter s) (ready S s)) as [m|] eqn:L; [|apply least_none in L; rewrite L in K; destruct K].
    specialize (M m eq_refl). unfold mark in M. apply Z.mul_reg_r in M; [|lia]. rewrite Free. cbn [negb andb].
    set (c := counter s (owner j) - _).
    replace (c / quantum S <=? m / quantum S) with true; [reflexivity|].
    symmetry. apply Z.leb_le. rewrite <- M. apply Z.div_le_mono; [lia|].
    unfold c. destruct (preferred S (owner j) s); lia.
  - intros events t f g R H F G.
    eapply in_turns_of_a_quantum_two_that_wait_all_through_differ_by_less_than_2U_and_2Q; eauto.
Qed.

(* --- U in the sizes of memory and prompts: reservation for the whole lifetime ------------------------------------------- *)

(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_reservation_U_is_at_most_its_closed_form : forall S price most w_p w_q M L events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q -> 0 <= M -> 0 <= L ->
  by_chunk S = false -> admits S = reserves M -> prompts_within L events -> run S initial events = Some s ->
  certificate s <= most * (w_q * M + Z.max 0 (w_p - w_q) * L).
Proof.
  intros S price most w_p w_q M L events s No Co Pr Wp Wq HM HL Ch Ad In R.
  exact (U_of_reserving S price most w_p w_q M L events s No Co Pr Wp Wq HM HL Ch Ad In R).
Qed.

(* Several prompts of one client may be unpaid then. *)
(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem charged_by_the_chunk_U_is_at_most_the_dearer_token_times_M : forall S price most w_p w_q M events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q -> 0 <= M ->
  admits S = reserves M -> run S initial events = Some s ->
  certificate s <= most * (Z.max w_p w_q * M).
Proof.
  intros S price most w_p w_q M events s No Co Pr Wp Wq HM Ad R.
  exact (U_of_reserving_by_chunk S price most w_p w_q M events s No Co Pr Wp Wq HM Ad R).
Qed.

(* constant: FAIR-8 *)
Theorem where_a_prompt_token_is_no_dearer_the_closed_form_is_that_of_the_paper : forall w_p w_q M L,
  0 <= w_p <= w_q -> 0 <= L <= M -> w_q * M + Z.max 0 (w_p - w_q) * L = Z.max (w_p * L) (w_q * M).
Proof. exact U_is_that_of_the_paper. Qed.

(* Theorem 4.4 of Sheng et al. as it is quoted, with what it needs. *)
(* constant: FAIR-8 *)
Theorem the_constant_of_the_paper_holds_where_a_prompt_token_is_no_dearer :
  forall S w_p w_q M L before events s t f g,
  sound S -> holds S = no_caps -> costs S = linear (fun _ => 1) w_p w_q -> credit S = 0 -> by_chunk S = false -> admits S = reserves M ->
  0 <= w_p <= w_q -> 0 <= L <= M -> prompts_within L (before ++ events) ->
  run S initial before = Some s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * Z.max (w_p * L) (w_q * M).
Proof.
  intros S w_p w_q M L before events s t f g So No Co Cr Ch Ad Ws Ls In R H F G.
  rewrite <- U_is_that_of_the_paper by auto.
  pose proof (difference S 1 0 So s events t f g (ex_intro _ before R) H F G) as D. rewrite (slack_of_one So) in D.
  pose proof (U_of_reserving S (fun _ => 1) 1 w_p w_q M L (before ++ events) t No Co ltac:(intros; lia) ltac:(lia) ltac:(lia)
    ltac:(lia) ltac:(lia) Ch Ad In (run_app _ _ _ _ _ _ R H)) as U.
  lia.
Qed.

(* --- what is really held at most fits: more can be owed than memory has tokens ------------------------------------------- *)

(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_peak_occupancy_U_is_at_most_harmonic : forall S price most w_p w_q M L seats longest events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> 0 <= seats -> by_chunk S = false -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> run S initial events = Some s ->
  certificate s <= most * (w_p * L + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HL HK Ch Ad In R.
  exact (U_of_peak_occupancy S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HL HK Ch Ad In R).
Qed.

(* Prompts that are charged by the chunk; each request asks for an output. *)
(* constant: FAIR-7, FAIR-8, FAIR-9, FAIR-10 *)
Theorem with_peak_occupancy_and_prompts_by_the_chunk_U_is_at_most_harmonic :
  forall S price most w_p w_q M L seats longest events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= seats -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> asks_for_outputs 1 events -> run S initial events = Some s ->
  certificate s <= most * (w_p * M + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HK Ad In One R.
  exact (U_of_peak_occupancy_by_chunk S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HK Ad In One R).
Qed.
