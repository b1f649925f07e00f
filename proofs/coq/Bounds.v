(* The bounds.  U is the certificate of the run itself; every bound has the credit of aging added to it, a quantum less 1,
   and the largest burst. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* --- lists ------------------------------------------------------------------------------------------------------- *)

Lemma take_in : forall name jobs j rest, take name jobs = Some (j, rest) ->
  In j jobs /\ forall k, In k rest -> In k jobs.
Proof.
  induction jobs as [|x jobs IH]; simpl; intros j rest H; [discriminate|].
  destruct (Nat.eqb (id x) name).
  - inversion H; subst; auto.
  - destruct (take name jobs) as [[k others]|] eqn:E; inversion H; subst.
    destruct (IH _ _ eq_refl) as [A B]. split; auto. simpl; intros k [->|K]; auto.
Qed.

Lemma take_id : forall name jobs j rest, take name jobs = Some (j, rest) -> id j = name.
Proof.
  induction jobs as [|x jobs IH]; simpl; intros j rest H; [discriminate|].
  destruct (Nat.eqb_spec (id x) name); [inversion H; subst; auto|].
  destruct (take name jobs) as [[k others]|] eqn:E; inversion H; subst. eauto.
Qed.

Lemma take_committed : forall S u name jobs j rest, take name jobs = Some (j, rest) ->
  committed S u jobs = committed S u (j :: rest).
Proof.
  induction jobs as [|x jobs IH]; intros j rest H; [discriminate|]. simpl in H.
  destruct (Nat.eqb (id x) name).
  - inversion H; subst; auto.
  - destruct (take name jobs) as [[k others]|] eqn:E; inversion H; subst.
    simpl. rewrite (IH _ _ eq_refl). simpl. lia.
Qed.

Lemma least_below : forall c jobs m, least c jobs = Some m -> forall j, In j jobs -> m <= c (owner j).
Proof.
  induction jobs as [|x jobs IH]; simpl; intros m H j J; [tauto|].
  destruct (least c jobs) as [n|] eqn:E; inversion H; subst; destruct J as [->|J].
  - lia.
  - specialize (IH _ eq_refl _ J); lia.
  - lia.
  - destruct jobs; [destruct J|]. simpl in E. destruct (least c jobs); discriminate.
Qed.

Lemma least_above : forall c jobs m b, least c jobs = Some m -> (forall j, In j jobs -> b <= c (owner j)) -> b <= m.
Proof.
  induction jobs as [|x jobs IH]; simpl; intros m b H A; [discriminate|].
  pose proof (A x (or_introl eq_refl)).
  destruct (least c jobs) as [n|] eqn:E; inversion H; subst; auto.
  assert (b <= n) by (apply IH; auto). lia.
Qed.

Lemma least_none : forall c jobs, least c jobs = None -> jobs = [].
Proof. intros c [|x jobs]; simpl; auto. destruct (least c jobs); discriminate. Qed.

Lemma waits_iff : forall u s, waits u s = true <-> exists j, In j (waiting s) /\ owner j = u.
Proof.
  intros. unfold waits. rewrite existsb_exists.
  split; intros [j [A B]]; exists j; split; auto; apply Nat.eqb_eq; auto.
Qed.

Lemma set_same : forall f u x, set f u x u = x.
Proof. intros. unfold set. rewrite Nat.eqb_refl. auto. Qed.

Lemma set_other : forall f u x i, i <> u -> set f u x i = f i.
Proof. intros. unfold set. destruct (Nat.eqb_spec i u); congruence. Qed.

Ltac at_client i u :=
  let E := fresh in
  destruct (Nat.eq_dec i u) as [E|E];
  [rewrite ?E in *; rewrite ?set_same, ?Nat.eqb_refl in *
  |rewrite ?set_other in * by auto; rewrite ?(proj2 (Nat.eqb_neq i u)), ?(proj2 (Nat.eqb_neq u i)) in * by auto].

(* --- the invariant ----------------------------------------------------------------------------------------------- *)

Definition well_formed (j : job) : Prop :=
  0 <= paid_prompt j <= prompt j /\ 0 <= outputs j <= paid_outputs j /\ paid_outputs j <= limit j
  /\ 0 <= predicted j <= limit j.

Definition slack (S : scheduler) : Z := credit S + quantum S - 1.

Record Inv (S : scheduler) (s : state) : Prop := {
  formed : forall j, In j (waiting s) \/ In j (running s) -> well_formed j;
  floor : forall j, In j (waiting s) -> virtual_time s <= counter s (owner j) + burst S (owner j);
  ceiling : forall u, counter s u + committed S u (running s) <= virtual_time s + certificate s + slack S;
  commit : forall u, committed S u (running s) <= certificate s;
  on_a_mark : mark S (virtual_time s) = virtual_time s;
  nobody_waits : waiting s = [] ->
    match last_left s with
    | Some l => virtual_time s <= counter s l + burst S l
    | None => forall u, virtual_time s <= counter s u
    end }.

Lemma run_app : forall S a b i j k, run S i a = Some j -> run S j b = Some k -> run S i (a ++ b) = Some k.
Proof.
  induction a as [|e a IH]; simpl; intros b i j k A B; [inversion A; subst; auto|].
  destruct (step S i e); [eauto|discriminate].
Qed.

Lemma still_reachable : forall S events s t, reachable S s -> run S s events = Some t -> reachable S t.
Proof. intros S events s t [before R] H. exists (before ++ events). eapply run_app; eauto. Qed.

Section Sound.
Variable S : scheduler.
Variables Q largest_burst : Z.
Hypothesis sound_S : equipped S Q largest_burst true true true true.

Lemma quantum_positive : 0 < quantum S.
Proof. destruct sound_S as (_ & _ & -> & ? & _). lia. Qed.

Lemma bursts : forall u, 0 <= burst S u <= largest_burst.
Proof. apply sound_S. Qed.

Lemma slack_nonneg : 0 <= slack S.
Proof. destruct sound_S as (_ & ? & ? & ? & _). unfold slack. lia. Qed.

Lemma mark_below : forall c, mark S c <= c < mark S c + quantum S.
Proof.
  intros c. pose proof quantum_positive. unfold mark. pose proof (Z.div_mod c (quantum S) ltac:(lia)).
  pose proof (Z.mod_pos_bound c (quantum S) ltac:(lia)). lia.
Qed.

Lemma mark_grows : forall c d, c <= d -> mark S c <= mark S d.
Proof.
  intros c d L. pose proof quantum_positive. unfold mark. apply Z.mul_le_mono_nonneg_r; [lia|]. apply Z.div_le_mono; lia.
Qed.

Lemma mark_of_a_mark : forall c, mark S (mark S c) = mark S c.
Proof. intros c. pose proof quantum_positive. unfold mark. rewrite Z.div_mul by lia. reflexivity. Qed.

Lemma mark_of_the_larger : forall c d, mark S c = c -> mark S (Z.max c (mark S d)) = Z.max c (mark S d).
Proof. intros c d E. destruct (Z.max_spec c (mark S d)) as [[_ ->]|[_ ->]]; auto using mark_of_a_mark. Qed.

Lemma costs_sensible : sensible (costs S). Proof. apply sound_S. Qed.

Lemma unpaid_nonneg : forall j, well_formed j -> 0 <= unpaid S j.
Proof.
  intros j (A & B & C & _). destruct costs_sensible as (E & I & O).
  unfold unpaid, whole, billed.
  pose proof (E (owner j)). pose proof (I (owner j) (paid_prompt j) (prompt j) ltac:(lia)).
  pose proof (O (owner j) (prompt j) (paid_outputs j) (limit j) ltac:(lia)). destruct (entered j); lia.
Qed.

Lemma committed_nonneg : forall u jobs, (forall j, In j jobs -> well_formed j) -> 0 <= committed S u jobs.
Proof.
  induction jobs as [|x jobs IH]; simpl; intros A; [lia|].
  pose proof (unpaid_nonneg x (A x (or_introl eq_refl))).
  assert (0 <= committed S u jobs) by auto. destruct (Nat.eqb (owner x) u); lia.
Qed.

Lemma paid_formed : forall j n m, well_formed j -> 0 <= m <= limit j -> well_formed (paid_up_to j n m).
Proof. unfold well_formed; simpl; intros; lia. Qed.

Lemma paid_bills : forall j n m, well_formed j -> billed S j <= billed S (paid_up_to j n m).
Proof.
  intros j n m (A & B & C & _). destruct costs_sensible as (E & I & O).
  unfold billed; simpl.
  pose proof (E (owner j)). pose proof (I (owner j) (paid_prompt j) (Z.max (paid_prompt j) (Z.min n (prompt j))) ltac:(lia)).
  pose proof (O (owner j) (prompt j) (paid_outputs j) (Z.max (paid_outputs j) m) ltac:(lia)). destruct (entered j); lia.
Qed.

Lemma one_more_formed : forall j, well_formed j -> outputs j < limit j -> well_formed (with_one_more j).
Proof. unfold well_formed; simpl; intros; lia. Qed.

Lemma one_more_bills : forall j, well_formed j -> billed S j <= billed S (with_one_more j).
Proof.
  intros j (A & B & C & _). destruct costs_sensible as (_ & _ & O). unfold billed; simpl.
  pose proof (O (owner j) (prompt j) (paid_outputs j) (Z.max (paid_outputs j) (outputs j + 1)) ltac:(lia)). lia.
Qed.

Lemma refund_nonneg : forall j, well_formed j -> billed S (without_refund j) <= billed S j.
Proof.
  intros j (A & B & C & _). destruct costs_sensible as (_ & _ & O). unfold billed; simpl.
  pose proof (O (owner j) (prompt j) (outputs j) (paid_outputs j) ltac:(lia)). lia.
Qed.

Lemma Inv_initial : Inv S initial.
Proof.
  pose proof slack_nonneg.
  split; simpl; intros; try tauto; try lia.
Qed.

Lemma lift_marks : forall s m, lift S s = Some m -> mark S m = m.
Proof.
  intros s m. unfold lift.
  destruct (least (counter s) (waiting s)) as [n|]; [|destruct (last_left s); [|discriminate];
    destruct (lifts_into_an_empty_queue S); [|discriminate]]; intros H; inversion H; apply mark_of_a_mark.
Qed.

Lemma lift_below : forall s m, lift S s = Some m -> forall j, In j (waiting s) -> m <= counter s (owner j).
Proof.
  intros s m. unfold lift. destruct (least (counter s) (waiting s)) as [n|] eqn:E.
  - intros H; inversion H; subst. intros j J. pose proof (least_below _ _ _ E j J). pose proof (mark_below n). lia.
  - apply least_none in E. rewrite E. simpl. tauto.
Qed.

Lemma no_lift : forall s u, Inv S s -> lift S s = None -> virtual_time s <= counter s u.
Proof.
  intros s u I. unfold lift. destruct sound_S as (_ & _ & _ & _ & _ & _ & -> & _).
  destruct (least (counter s) (waiting s)) as [n|] eqn:E; [discriminate|].
  apply least_none in E. destruct (last_left s) eqn:L; [discriminate|].
  intros _. pose proof (nobody_waits _ _ I E) as N. rewrite L in N. auto.
Qed.

Lemma Inv_enter : forall s j, Inv S s -> well_formed j -> Inv S (enter S true j s).
Proof.
  intros s j I F. pose proof slack_nonneg as Cr. pose proof bursts as Bu.
  unfold enter. simpl. destruct (waits (owner j) s) eqn:W; simpl.
  { apply waits_iff in W. destruct W as (k & K & Ek).
    split; simpl; intros; try discriminate.
    - destruct H as [[<-|H]|H]; auto; apply I; auto.
    - destruct H as [<-|H]; [simpl; rewrite <- Ek|]; apply I; auto.
    - apply I.
    - apply I.
    - apply I. }
  destruct (lift S s) as [m|] eqn:L.
  - pose proof (lift_marks _ _ L) as Am. pose proof (lift_below _ _ L) as Be.
    split; simpl; intros; try discriminate.
    + destruct H as [[<-|H]|H]; auto; apply I; auto.
    + destruct H as [<-|H]; simpl; [rewrite set_same; lia|].
      specialize (Be _ H). pose proof (floor _ _ I _ H). specialize (Bu (owner j0)). at_client (owner j0) (owner j); lia.
    + pose proof (ceiling _ _ I u). pose proof (commit _ _ I u). specialize (Bu u).
      at_client u (owner j); lia.
    + apply I.
    + rewrite <- Am. apply mark_of_the_larger. apply I.
  - split; simpl; intros; try discriminate.
    + destruct H as [[<-|H]|H]; auto; apply I; auto.
    + destruct H as [<-|H]; simpl; [|apply I; auto].
      pose proof (no_lift _ (owner j) I L). specialize (Bu (owner j)). lia.
    + apply I.
    + apply I.
    + apply I.
Qed.

Lemma Inv_fewer : forall s name j rest, Inv S s -> take name (running s) = Some (j, rest) -> Inv S (with_running rest s).
Proof.
  intros s name j rest I T. destruct (take_in _ _ _ _ T) as [Hj Hr].
  pose proof (unpaid_nonneg j (formed _ _ I j (or_intror Hj))) as P.
  assert (C : forall u, committed S u rest <= committed S u (running s)).
  { intros u. rewrite (take_committed _ u _ _ _ _ T). simpl. destruct (Nat.eqb (owner j) u); lia. }
  split; simpl; intros.
  - apply I. destruct H; auto.
  - apply I; auto.
  - pose proof (ceiling _ _ I u). specialize (C u). lia.
  - pose proof (commit _ _ I u). specialize (C u). lia.
  - apply I.
  - apply I; auto.
Qed.

Lemma Inv_charged : forall s name j k rest, Inv S s -> take name (running s) = Some (j, rest) ->
  owner k = owner j -> whole S k = whole S j -> well_formed k -> billed S j <= billed S k ->
  Inv S (charged S j k rest s).
Proof.
  intros s name j k rest I T O Wk F B. destruct (take_in _ _ _ _ T) as [Hj Hr].
  assert (C : forall u, committed S u (k :: rest) =
    committed S u (running s) - (if Nat.eqb (owner j) u then billed S k - billed S j else 0)).
  { intros u. rewrite (take_committed _ u _ _ _ _ T). simpl. rewrite O. unfold unpaid.
    destruct (Nat.eqb (owner j) u); lia. }
  split; cbn [charged waiting running counter virtual_time certificate last_left]; intros.
  - destruct H as [H|[<-|H]]; auto; apply I; auto.
  - pose proof (floor _ _ I _ H). at_client (owner j0) (owner j); lia.
  - rewrite C. pose proof (ceiling _ _ I u). at_client u (owner j); lia.
  - rewrite C. pose proof (commit _ _ I u). destruct (Nat.eqb (owner j) u); lia.
  - apply I.
  - pose proof (nobody_waits _ _ I H) as N. destruct (last_left s) as [l|].
    + at_client l (owner j); lia.
    + intros u. specialize (N u). at_client u (owner j); lia.
Qed.

Lemma Inv_settled : forall s j, Inv S s -> well_formed j -> Inv S (settled S j s).
Proof.
  intros s j I F. pose proof (refund_nonneg j F) as R.
  unfold settled. destruct sound_S as (_ & _ & _ & _ & Bu & _ & _ & _ & ->).
  split; simpl; intros.
  - apply I; auto.
  - pose proof (floor _ _ I _ H). specialize (Bu (owner j0)). at_client (owner j0) (owner j); lia.
  - pose proof (ceiling _ _ I u). at_client u (owner j); lia.
  - apply I.
  - apply I.
  - pose proof (nobody_waits _ _ I H) as N. destruct (last_left s) as [l|].
    + specialize (Bu l). at_client l (owner j); lia.
    + intros u. specialize (N u). at_client u (owner j); lia.
Qed.

Lemma Inv_leaves : forall s name j rest, Inv S s -> take name (waiting s) = Some (j, rest) ->
  Inv S (with_waiting (owner j) rest s).
Proof.
  intros s name j rest I T. destruct (take_in _ _ _ _ T) as [Hj Hr].
  split; simpl; intros.
  - apply I. destruct H; auto.
  - apply I; auto.
  - apply I.
  - apply I.
  - apply I.
  - subst rest. unfold left_by; simpl. apply I; auto.
Qed.

Lemma ready_waits : forall s j, In j (ready S s) -> In j (waiting s).
Proof. intros s j H. apply filter_In in H. apply H. Qed.

Lemma in_turn_is : forall s j, in_turn S j s = true ->
  exists m, least (counter s) (ready S s) = Some m /\ counter s (owner j) <= mark S m + slack S
            /\ holds S (waiting s) (running s) (owner j) = false
            /\ (preferred S (owner j) s = false -> mark S (counter s (owner j)) <= mark S m).
Proof.
  intros s j. unfold in_turn. destruct sound_S as (_ & Cr & _ & _ & _ & -> & _).
  destruct (least (counter s) (ready S s)) as [m|]; [|discriminate].
  intros H. apply andb_true_iff in H. destruct H as [Hold H]. apply negb_true_iff in Hold.
  exists m. split; auto. apply Z.leb_le in H. pose proof quantum_positive as P.
  set (c := counter s (owner j) - (if preferred S (owner j) s then credit S else 0)) in *.
  pose proof (mark_below c) as Be. unfold mark, slack in *.
  pose proof (Z.mul_le_mono_nonneg_r _ _ (quantum S) ltac:(lia) H).
  assert (counter s (owner j) <= c + credit S) by (unfold c; destruct (preferred S (owner j) s); lia).
  split; [lia|]. split; auto. intros E. unfold c in *. rewrite E, Z.sub_0_r in *. lia.
Qed.

(* The least counter that is not held is above the least by what is passed over. *)
Lemma passed_over_is : forall s m, least (counter s) (ready S s) = Some m ->
  exists n, least (counter s) (waiting s) = Some n /\ n <= m /\ mark S m = mark S n + passed_over S s.
Proof.
  intros s m L. unfold passed_over. rewrite L.
  destruct (least (counter s) (waiting s)) as [n|] eqn:E.
  - exists n. repeat split; [|lia]. apply (least_above _ _ _ n L).
    intros j J. apply (least_below _ _ _ E). apply ready_waits. exact J.
  - apply least_none in E. unfold ready in L. rewrite E in L. discriminate.
Qed.

Lemma passed_over_nonneg : forall s, 0 <= passed_over S s.
Proof.
  intros s. destruct (least (counter s) (ready S s)) as [m|] eqn:L; [|unfold passed_over; rewrite L; lia].
  destruct (passed_over_is _ _ L) as (n & _ & Le & E). pose proof (mark_grows n m Le). lia.
Qed.

Lemma Inv_picked : forall s name j cached rest, Inv S s -> take name (waiting s) = Some (j, rest) ->
  in_turn S j s = true -> Inv S (picked S j cached rest s).
Proof.
  intros s name j cached rest I T Turn. destruct (take_in _ _ _ _ T) as [Hj Hr].
  destruct (in_turn_is _ _ Turn) as (m & L & Cm & _).
  destruct (passed_over_is _ _ L) as (n & Ln & _ & Em). pose proof (passed_over_nonneg s) as Po.
  pose proof (formed _ _ I j (or_introl Hj)) as F.
  set (k := paid_up_to j (if by_chunk S then cached else prompt j) (predicted j)).
  assert (Fk : well_formed k) by (apply paid_formed; auto; apply F).
  pose proof (paid_bills j (if by_chunk S then cached else prompt j) (predicted j) F) as Bk. fold k in Bk.
  pose proof (unpaid_nonneg k Fk) as Pk.
  pose proof (floor _ _ I j Hj) as Fj. pose proof (mark_below n) as Mn. pose proof bursts as Bu.
  pose proof (least_below _ _ _ Ln) as Lb. pose proof (Lb _ Hj) as Lj.
  assert (Ok : owner k = owner j) by reflexivity.
  unfold picked. fold k. rewrite Ln.
  split; cbn [waiting running counter virtual_time certificate last_left]; intros.
  - destruct H as [H|[<-|H]]; auto; apply I; auto.
  - specialize (Lb _ (Hr _ H)). pose proof (floor _ _ I _ (Hr _ H)). specialize (Bu (owner j0)).
    at_client (owner j0) (owner j); lia.
  - pose proof (ceiling _ _ I u). pose proof (commit _ _ I u).
    cbn [committed]. rewrite !Ok. at_client u (owner j); lia.
  - pose proof (commit _ _ I u). cbn [committed]. rewrite !Ok. at_client u (owner j); lia.
  - apply mark_of_the_larger. apply I.
  - subst rest. unfold left_by; simpl. specialize (Bu (owner j)). rewrite set_same. lia.
Qed.

Lemma Inv_step : forall s e t, Inv S s -> step S s e = Some t -> Inv S t.
Proof.
  intros s e t I. pose proof sound_S as (_ & _ & _ & _ & _ & _ & _ & Lv & _).
  destruct e; simpl.
  - destruct (_ && _) eqn:G; [|discriminate]. intros H; inversion H.
    apply Inv_enter; auto. rewrite !andb_true_iff, !Z.leb_le in G. unfold well_formed; simpl; lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (in_turn S j s) eqn:Turn; [|discriminate]. destruct (admits S (running s) j); [|discriminate].
    simpl; intros H; inversion H. eapply Inv_picked; eauto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    pose proof (formed _ _ I j (or_intror Hj)) as F.
    eapply Inv_charged; eauto; try apply paid_bills; auto.
    apply paid_formed; auto. unfold well_formed in F; lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _) eqn:G; [|discriminate]. apply andb_true_iff in G. destruct G as [G _]. apply Z.ltb_lt in G.
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    pose proof (formed _ _ I j (or_intror Hj)) as F.
    eapply Inv_charged; eauto; [apply one_more_formed|apply one_more_bills]; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    apply Inv_settled; [eapply Inv_fewer; eauto|]. apply (formed _ _ I); auto.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    apply Inv_settled; [eapply Inv_leaves; eauto|]. apply (formed _ _ I); auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    rewrite Lv. intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    apply Inv_enter; [eapply Inv_fewer; eauto|]. apply (formed _ _ I); auto.
Qed.

Lemma Inv_run : forall events s t, Inv S s -> run S s events = Some t -> Inv S t.
Proof.
  induction events as [|e events IH]; simpl; intros s t I H; [inversion H; subst; auto|].
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  apply (IH m t); auto. eapply Inv_step; eauto.
Qed.

Lemma Inv_reachable : forall s, reachable S s -> Inv S s.
Proof. intros s [events H]. eapply Inv_run; eauto. apply Inv_initial. Qed.

Lemma committed_nonneg_in : forall s u, Inv S s -> 0 <= committed S u (running s).
Proof. intros. apply committed_nonneg. intros. apply (formed _ _ H); auto. Qed.

(* --- what one event can do --------------------------------------------------------------------------------------- *)

Lemma enter_effect : forall lifted s j u, Inv S s ->
  counter s u <= counter (enter S lifted j s) u /\ service (enter S lifted j s) u = service s u
  /\ (waits u s = true -> counter (enter S lifted j s) u = counter s u)
  /\ running (enter S lifted j s) = running s
  /\ virtual_time s <= virtual_time (enter S lifted j s) /\ certificate (enter S lifted j s) = certificate s.
Proof.
  intros lifted s j u I. unfold enter.
  destruct (lifted && negb (waits (owner j) s)) eqn:L.
  - apply andb_true_iff in L. destruct L as [_ W]. apply negb_true_iff in W.
    destruct (lift S s) as [m|]; simpl; repeat split; try lia.
    + at_client u (owner j); lia.
    + intros Wu. at_client u (owner j); auto. congruence.
  - simpl; repeat split; lia.
Qed.

(* Counters move with service, but for lifts; who waits is not lifted; only a pick makes a client owe more; time and
   certificate never fall. *)
Lemma effect : forall s e t u, Inv S s -> step S s e = Some t ->
  service t u - service s u <= counter t u - counter s u
  /\ (waits u s = true -> service t u - service s u = counter t u - counter s u)
  /\ (waits u s = true
      \/ service t u - service s u + committed S u (running t) - committed S u (running s) <= 0)
  /\ virtual_time s <= virtual_time t /\ certificate s <= certificate t.
Proof.
  intros s e t u I. destruct e; simpl.
  - destruct (_ && _); [|discriminate]. intros H; inversion H.
    destruct (enter_effect true s (Job name client prompt_tokens max_outputs prediction false 0 0 0 0) u I)
      as (A & B & C & D & E & G). rewrite B, D, G. repeat split; try lia. intros W; rewrite (C W); lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (in_turn S j s && admits S (running s) j); [|discriminate].
    intros H; inversion H. unfold picked; cbn [counter service running virtual_time certificate].
    destruct (take_in _ _ _ _ T) as [Hj _].
    assert (V : forall x, virtual_time s <=
      match least (counter s) (waiting s) with Some m => Z.max (virtual_time s) (mark S m) | None => virtual_time s end
      /\ certificate s <= Z.max (certificate s) x) by (intros; destruct (least (counter s) (waiting s)); lia).
    split; [at_client u (owner j); lia|]. split; [at_client u (owner j); lia|].
    split; [|apply V]. destruct (Nat.eq_dec u (owner j)) as [->|N].
    + left. apply waits_iff. eauto.
    + right. rewrite set_other by auto. cbn [committed]. simpl.
      rewrite (proj2 (Nat.eqb_neq (owner j) u)) by auto. lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. unfold charged; cbn [counter service running virtual_time certificate].
    rewrite (take_committed _ u _ _ _ _ T). cbn [committed].
    change (owner (paid_up_to j upto 0)) with (owner j). unfold unpaid.
    change (whole S (paid_up_to j upto 0)) with (whole S j).
    repeat split; try lia; [| |right]; at_client u (owner j); lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate].
    intros H; inversion H. unfold charged; cbn [counter service running virtual_time certificate].
    rewrite (take_committed _ u _ _ _ _ T). cbn [committed].
    change (owner (with_one_more j)) with (owner j). unfold unpaid.
    change (whole S (with_one_more j)) with (whole S j).
    repeat split; try lia; [| |right]; at_client u (owner j); lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    pose proof (formed _ _ I j (or_intror Hj)) as F. pose proof (refund_nonneg j F) as R.
    pose proof (unpaid_nonneg j F) as P.
    rewrite (take_committed _ u _ _ _ _ T).
    unfold settled. destruct sound_S as (_ & _ & _ & _ & _ & _ & _ & _ & ->).
    cbn [with_running counter service running virtual_time certificate committed].
    repeat split; try lia; [| |right]; at_client u (owner j); lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    pose proof (formed _ _ I j (or_introl Hj)) as F. pose proof (refund_nonneg j F) as R.
    unfold settled. destruct sound_S as (_ & _ & _ & _ & _ & _ & _ & _ & ->).
    cbn [with_waiting counter service running virtual_time certificate].
    repeat split; try lia; [| |right]; at_client u (owner j); lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [Hj _].
    pose proof (unpaid_nonneg j (formed _ _ I j (or_intror Hj))) as P.
    pose proof (Inv_fewer _ _ _ _ I T) as I'.
    destruct (enter_effect (lifts_victims S) _ j u I') as (A & B & C & D & E & G).
    rewrite B, D, G. rewrite (take_committed _ u _ _ _ _ T).
    cbn [with_running counter service running virtual_time certificate committed] in *.
    change (waits u (with_running rest s)) with (waits u s) in C.
    repeat split; try lia; [intros W; rewrite (C W); lia|right; destruct (Nat.eqb (owner j) u); lia].
Qed.

Lemma time_passes : forall events s t, Inv S s -> run S s events = Some t ->
  virtual_time s <= virtual_time t /\ certificate s <= certificate t.
Proof.
  induction events as [|e events IH]; simpl; intros s t I H; [inversion H; subst; lia|].
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  destruct (effect _ _ _ 0%nat I E) as (_ & _ & _ & A & B).
  destruct (IH _ _ (Inv_step _ _ _ I E) H). lia.
Qed.

Lemma who_waits_is_not_lifted : forall events s t f, Inv S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> got f s t = counter t f - counter s f.
Proof.
  unfold got. induction events as [|e events IH]; simpl; intros s t f I H W; [inversion H; subst; lia|].
  destruct W as [W Ws]. destruct (step S s e) as [m|] eqn:E; [|discriminate].
  destruct (effect _ _ _ f I E) as (_ & A & _). specialize (A W).
  specialize (IH _ _ _ (Inv_step _ _ _ I E) H Ws). lia.
Qed.

Lemma throughout_last : forall P events s t, throughout S P s events -> run S s events = Some t -> P s /\ P t.
Proof.
  induction events as [|e events IH]; simpl; intros s t [A B] H; [inversion H; subst; auto|].
  destruct (step S s e) as [m|] eqn:E; [|discriminate]. split; auto. eapply IH; eauto.
Qed.

(* What any client gets: at most what it was owed, until it waits; from then on no more than its counter rises. *)
Lemma what_anybody_gets : forall events s t g v0 u0, Inv S s -> run S s events = Some t ->
  v0 <= virtual_time s ->
  u0 + committed S g (running s) <= certificate s \/ u0 <= certificate s + counter s g + largest_burst - v0 ->
  u0 + got g s t + committed S g (running t) <= certificate t
  \/ u0 + got g s t <= certificate t + counter t g + largest_burst - v0.
Proof.
  unfold got. induction events as [|e events IH]; simpl; intros s t g v0 u0 I H V A.
  { inversion H; subst. lia. }
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  destruct (effect _ _ _ g I E) as (B & _ & C & D & G).
  pose proof (committed_nonneg_in s g I) as P.
  replace (u0 + (service t g - service s g)) with (u0 + (service m g - service s g) + (service t g - service m g)) by lia.
  apply IH; auto; [eapply Inv_step; eauto|lia|].
  destruct C as [W|C]; [|lia]. right.
  apply waits_iff in W. destruct W as (j & Hj & <-). pose proof (floor _ _ I _ Hj). pose proof (bursts (owner j)). lia.
Qed.

(* --- the bounds ------------------------------------------------------------------------------------------------ *)

Lemma gap : forall s f g, reachable S s ->
  waits f s = true -> waits g s = true -> Z.abs (counter s f - counter s g) <= certificate s + slack S + largest_burst.
Proof.
  intros s f g R F G. pose proof (Inv_reachable _ R) as I.
  apply waits_iff in F. apply waits_iff in G. destruct F as (i & Hi & <-), G as (j & Hj & <-).
  pose proof (floor _ _ I _ Hi). pose proof (floor _ _ I _ Hj).
  pose proof (ceiling _ _ I (owner i)). pose proof (ceiling _ _ I (owner j)).
  pose proof (bursts (owner i)). pose proof (bursts (owner j)).
  pose proof (committed_nonneg_in s (owner i) I). pose proof (committed_nonneg_in s (owner j) I). lia.
Qed.

Lemma difference : forall s events t f g,
  reachable S s -> run S s events = Some t ->
  throughout S (fun x => waits f x = true) s events -> throughout S (fun x => waits g x = true) s events ->
  Z.abs (got f s t - got g s t) <= 2 * (certificate t + slack S + largest_burst).
Proof.
  intros s events t f g R H F G. pose proof (Inv_reachable _ R) as I.
  rewrite (who_waits_is_not_lifted _ _ _ _ I H F), (who_waits_is_not_lifted _ _ _ _ I H G).
  destruct (throughout_last _ _ _ _ F H), (throughout_last _ _ _ _ G H).
  pose proof (still_reachable _ _ _ _ R H) as R'.
  pose proof (gap s f g R ltac:(auto) ltac:(auto)).
  pose proof (gap t f g R' ltac:(auto) ltac:(auto)).
  pose proof (time_passes _ _ _ I H). lia.
Qed.

Lemma lead : forall s events t f g,
  reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  got g s t - got f s t <= 3 * (certificate t + slack S + largest_burst).
Proof.
  intros s events t f g R H F. pose proof (Inv_reachable _ R) as I. pose proof (Inv_run _ _ _ I H) as J.
  rewrite (who_waits_is_not_lifted _ _ _ _ I H F).
  destruct (throughout_last _ _ _ _ F H) as [_ Wt]. pose proof slack_nonneg as Cr.
  apply waits_iff in Wt. destruct Wt as (j & Hj & <-). pose proof (floor _ _ J _ Hj) as Ft.
  pose proof (bursts (owner j)) as Bf.
  pose proof (ceiling _ _ I (owner j)) as Cs. pose proof (committed_nonneg_in s (owner j) I).
  pose proof (ceiling _ _ J g) as Ct. pose proof (committed_nonneg_in t g J).
  pose proof (commit _ _ I g). pose proof (commit _ _ J g). destruct (time_passes _ _ _ I H).
  destruct (what_anybody_gets _ _ _ g (virtual_time s) 0 I H ltac:(lia) ltac:(lia)); lia.
Qed.

(* Who came when it owed nothing: nothing of it ran, and its counter was not above the least. *)
Lemma before_a_newcomer : forall s events t f g,
  reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  counter s f <= virtual_time s -> got f s t <= 0 ->
  got g s t <= 2 * (certificate t + slack S + largest_burst).
Proof.
  intros s events t f g R H F New None. pose proof (Inv_reachable _ R) as I. pose proof (Inv_run _ _ _ I H) as J.
  rewrite (who_waits_is_not_lifted _ _ _ _ I H F) in None.
  destruct (throughout_last _ _ _ _ F H) as [_ Wt]. pose proof slack_nonneg as Cr.
  apply waits_iff in Wt. destruct Wt as (j & Hj & <-). pose proof (floor _ _ J _ Hj) as Ft.
  pose proof (bursts (owner j)) as Bf.
  pose proof (ceiling _ _ J g) as Ct. pose proof (committed_nonneg_in t g J).
  pose proof (commit _ _ I g). pose proof (commit _ _ J g). destruct (time_passes _ _ _ I H).
  destruct (what_anybody_gets _ _ _ g (virtual_time s) 0 I H ltac:(lia) ltac:(lia)); lia.
Qed.

Lemma flood : forall s events t f others,
  reachable S s -> run S s events = Some t -> throughout S (fun x => waits f x = true) s events ->
  counter s f <= virtual_time s -> got f s t <= 0 ->
  all_got others s t <= Z.of_nat (length others) * (2 * (certificate t + slack S + largest_burst)).
Proof.
  intros s events t f others R H F New None.
  induction others as [|g others IH]; cbn [all_got length]; [lia|].
  pose proof (before_a_newcomer _ _ _ _ g R H F New None). lia.
Qed.

Lemma no_credit : forall s f, reachable S s ->
  waits f s = true -> virtual_time s <= counter s f + burst S f.
Proof.
  intros s f R F. apply waits_iff in F. destruct F as (j & Hj & <-). apply (Inv_reachable _ R); auto.
Qed.

End Sound.
