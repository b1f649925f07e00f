(* How large U gets, by the test of admission: reservation for the whole lifetime, and peak occupancy. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds.
Import ListNotations.
Open Scope Z_scope.

(* Prompt and longest output together fit beside what was promised to those who run. *)
Definition size (j : job) : Z := prompt j + limit j.

Fixpoint reserved (jobs : list job) : Z :=
  match jobs with [] => 0 | j :: rest => size j + reserved rest end.

Definition reserves (M : Z) (running : list job) (j : job) : bool := reserved (j :: running) <=? M.

(* Only what is really held together: t steps from now, if all decode in lock step, those who are not done hold their
   prompts, their outputs and t more.  At most `seats` run. *)
Definition remaining (j : job) : Z := limit j - outputs j.

Fixpoint alive (t : Z) (jobs : list job) : Z :=
  match jobs with [] => 0 | j :: rest => (if t <=? remaining j then 1 else 0) + alive t rest end.

Fixpoint occupancy (t : Z) (jobs : list job) : Z :=
  match jobs with
  | [] => 0
  | j :: rest => (if t <=? remaining j then prompt j + outputs j + t else 0) + occupancy t rest
  end.

Fixpoint at_each_step (n : nat) (ok : Z -> bool) : bool :=
  match n with O => true | Datatypes.S n => ok (Z.of_nat (Datatypes.S n)) && at_each_step n ok end.

Definition peak_fits (M seats : Z) (longest : nat) (running : list job) (j : job) : bool :=
  (Z.of_nat (length (j :: running)) <=? seats)
  && at_each_step longest (fun t => occupancy t (j :: running) <=? M).

(* min(seats, M) + min(seats, M/2) + ... + min(seats, M/n). *)
Fixpoint harmonic (M seats : Z) (n : nat) : Z :=
  match n with
  | O => 0
  | Datatypes.S m => Z.min seats (M / Z.of_nat (Datatypes.S m)) + harmonic M seats m
  end.

Definition arrivals_within (longest_prompt longest_output : Z) (events : list event) : Prop :=
  forall name u p most guess, In (Arrive name u p most guess) events -> p <= longest_prompt /\ most <= longest_output.

Definition prompts_within (longest_prompt : Z) (events : list event) : Prop :=
  forall name u p most guess, In (Arrive name u p most guess) events -> p <= longest_prompt.

Lemma some_output_is_longest : forall L events, prompts_within L events -> exists O, arrivals_within L O events.
Proof.
  induction events as [|e events IH]; intros P; [exists 0; intros ? ? ? ? ? []|].
  destruct IH as [O A]; [intros name u p most guess K; eapply P; right; eauto|].
  exists (Z.max O (match e with Arrive _ _ _ most _ => most | _ => 0 end)).
  intros name u p most guess [->|K].
  - split; [eapply P; left; eauto|lia].
  - destruct (A _ _ _ _ _ K). lia.
Qed.

Lemma some_prompt_is_longest : forall events, exists L, prompts_within L events.
Proof.
  induction events as [|e events [L A]]; [exists 0; intros ? ? ? ? ? []|].
  exists (Z.max L (match e with Arrive _ _ p _ _ => p | _ => 0 end)).
  intros name u p most guess [->|K]; [lia|]. specialize (A _ _ _ _ _ K). lia.
Qed.

(* --- U is the largest of what the picks come to -------------------------------------------------------------------- *)

Section Certificate.
Variable S : scheduler.
Variables longest_prompt longest_output bound : Z.

Definition within (j : job) : Prop := well_formed j /\ prompt j <= longest_prompt /\ limit j <= longest_output.

(* Who runs has paid for its prompt, unless it is charged by the chunk. *)
Definition prompt_is_paid (j : job) : Prop := by_chunk S = false -> paid_prompt j = prompt j.

Hypothesis bound_nonneg : 0 <= bound.
Hypothesis bound_holds : forall running j,
  (forall k, In k running -> within k /\ prompt_is_paid k) -> within j -> admits S running j = true ->
  unpaid S j + committed S (owner j) running <= bound.

Record Within (s : state) : Prop := {
  waiting_within : forall j, In j (waiting s) -> within j;
  running_within : forall j, In j (running s) -> within j /\ prompt_is_paid j;
  certificate_within : certificate s <= bound }.

Lemma enter_within : forall lifted j s, Within s -> within j -> Within (enter S lifted j s).
Proof.
  intros lifted j s [A B C] W. unfold enter.
  destruct (if lifted && negb (waits (owner j) s) then lift S s else None); split; simpl; auto; intros k [<-|K]; auto.
Qed.

Lemma step_within : forall s e t, Within s -> step S s e = Some t -> arrivals_within longest_prompt longest_output [e] ->
  Within t.
Proof.
  intros s e t W. destruct e; simpl.
  - destruct (_ && _) eqn:G; [|discriminate]. intros H A; inversion H. apply enter_within; auto.
    destruct (A _ _ _ _ _ (or_introl eq_refl)). rewrite !andb_true_iff, !Z.leb_le in G.
    unfold within, well_formed; simpl; lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (in_turn S j s && admits S (running s) j) eqn:G; [|discriminate]. apply andb_true_iff in G.
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    pose proof (bound_holds _ _ B (A _ Hj) (proj2 G)) as U. destruct (A _ Hj) as (F & L).
    split; cbn [picked waiting running certificate]; auto.
    + intros k [<-|K]; auto. split.
      * split; auto. apply paid_formed; auto. apply F.
      * unfold prompt_is_paid. intros Eq. rewrite Eq. simpl. destruct F. lia.
    + cbn [committed]. change (owner (paid_up_to j (if by_chunk S then cached else prompt j) (predicted j))) with (owner j).
      rewrite Nat.eqb_refl. unfold unpaid in *.
      change (whole S (paid_up_to j (if by_chunk S then cached else prompt j) (predicted j))) with (whole S j). lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [charged waiting running certificate]; auto.
    intros k [<-|K]; auto. destruct (B _ Hj) as ((F & L) & P). split.
    + split; auto. apply paid_formed; auto. unfold well_formed in F; lia.
    + intros Eq. specialize (P Eq). simpl. lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (outputs j <? limit j) eqn:G; [|discriminate]. apply Z.ltb_lt in G.
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [charged waiting running certificate]; auto.
    intros k [<-|K]; auto. destruct (B _ Hj) as ((F & L) & P). split; auto.
    split; auto. apply one_more_formed; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [settled with_running waiting running certificate]; auto.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [settled with_waiting waiting running certificate]; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    apply enter_within; [|apply B; auto]. split; simpl; auto.
Qed.

Lemma run_within : forall events s t, Within s -> arrivals_within longest_prompt longest_output events ->
  run S s events = Some t -> Within t.
Proof.
  induction events as [|e events IH]; simpl; intros s t W A H; [inversion H; subst; auto|].
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  apply (IH m t); auto.
  - eapply step_within; eauto. intros name u p most guess [->|[]]. eapply A. left. reflexivity.
  - intros name u p most guess K. eapply A. right. eauto.
Qed.

Lemma certificate_is_within : forall events s, arrivals_within longest_prompt longest_output events ->
  run S initial events = Some s -> certificate s <= bound.
Proof.
  intros events s A H. apply (run_within events initial s); auto.
  split; simpl; auto; tauto.
Qed.
End Certificate.

(* --- what is not paid, by the token ---------------------------------------------------------------------------------- *)

Section Linear.
Variable S : scheduler.
Variables (price : nat -> Z) (most w_p w_q : Z).
Hypothesis priced : costs S = linear price w_p w_q.
Hypothesis prices : forall u, 0 <= price u <= most.
Hypothesis weights : 0 <= w_p /\ 0 <= w_q.

Lemma unpaid_is : forall j,
  unpaid S j = price (owner j) * (w_p * (prompt j - paid_prompt j) + w_q * (limit j - paid_outputs j)).
Proof. intros. unfold unpaid, whole, billed. rewrite priced. simpl. destruct (entered j); ring. Qed.

Fixpoint unpaid_tokens (u : nat) (jobs : list job) : Z :=
  match jobs with
  | [] => 0
  | j :: rest => (if Nat.eqb (owner j) u
                  then w_p * (prompt j - paid_prompt j) + w_q * (limit j - paid_outputs j) else 0)
                 + unpaid_tokens u rest
  end.

Lemma committed_is : forall u jobs, committed S u jobs = price u * unpaid_tokens u jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [committed unpaid_tokens]; [ring|].
  rewrite IH, unpaid_is. destruct (Nat.eqb_spec (owner j) u) as [->|]; ring.
Qed.

Lemma by_price : forall u x bound, 0 <= bound -> x <= bound -> price u * x <= most * bound.
Proof. intros u x bound B X. pose proof (prices u). nia. Qed.
End Linear.

(* --- reservation ----------------------------------------------------------------------------------------------------- *)

Definition U_of_reservation (w_p w_q M L : Z) : Z := w_q * M + Z.max 0 (w_p - w_q) * L.

Lemma unpaid_of_reserved : forall S L O w_p w_q u jobs, 0 <= w_p -> 0 <= w_q -> by_chunk S = false ->
  (forall k, In k jobs -> within L O k /\ prompt_is_paid S k) -> unpaid_tokens w_p w_q u jobs <= w_q * reserved jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens reserved]; intros Wp Wq Ch A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= w_q * reserved jobs) by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _ & _) & P). rewrite (P Ch).
  unfold well_formed in F. unfold size. destruct (Nat.eqb (owner j) u); nia.
Qed.

Lemma U_of_reserving : forall S price most w_p w_q M L events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> by_chunk S = false -> admits S = reserves M ->
  prompts_within L events -> run S initial events = Some s ->
  certificate s <= most * U_of_reservation w_p w_q M L.
Proof.
  intros S price most w_p w_q M L events s Co Pr Wp Wq HM HL Ch Ad Within H.
  destruct (some_output_is_longest _ _ Within) as [O A].
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  assert (0 <= U_of_reservation w_p w_q M L) by (unfold U_of_reservation; nia).
  apply (certificate_is_within S L O) with (events := events); auto; [nia|].
  intros running j R J Fits. rewrite Ad in Fits. unfold reserves in Fits. apply Z.leb_le in Fits.
  rewrite (committed_is S price w_p w_q Co), (unpaid_is S price w_p w_q Co), <- Z.mul_add_distr_l.
  apply (by_price price most Pr); auto.
  pose proof (unpaid_of_reserved S L O w_p w_q (owner j) running Wp Wq Ch R) as X.
  cbn [reserved] in Fits. unfold size in Fits. destruct J as (F & Lj & _). unfold well_formed in F.
  unfold U_of_reservation.
  assert (w_q * reserved running <= w_q * (M - prompt j - limit j)) by nia.
  assert (w_p * (prompt j - paid_prompt j) <= w_p * prompt j) by nia.
  assert (w_q * (limit j - paid_outputs j) <= w_q * limit j) by nia.
  assert ((w_p - w_q) * prompt j <= Z.max 0 (w_p - w_q) * L) by nia.
  nia.
Qed.

Lemma U_is_that_of_the_paper : forall w_p w_q M L, 0 <= w_p <= w_q -> 0 <= L <= M ->
  U_of_reservation w_p w_q M L = Z.max (w_p * L) (w_q * M).
Proof. intros. unfold U_of_reservation. nia. Qed.

Lemma unpaid_of_reserved_by_chunk : forall S L O w_p w_q u jobs, 0 <= w_p -> 0 <= w_q ->
  (forall k, In k jobs -> within L O k /\ prompt_is_paid S k) ->
  unpaid_tokens w_p w_q u jobs <= Z.max w_p w_q * reserved jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens reserved]; intros Wp Wq A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= Z.max w_p w_q * reserved jobs)
    by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _ & _) & _). unfold well_formed in F. unfold size.
  assert (w_p * (prompt j - paid_prompt j) <= Z.max w_p w_q * prompt j) by nia.
  assert (w_q * (limit j - paid_outputs j) <= Z.max w_p w_q * limit j) by nia.
  destruct (Nat.eqb (owner j) u); nia.
Qed.

(* Several prompts of a client may be unpaid then; with w_p <= w_q it is the same constant. *)
Lemma U_of_reserving_by_chunk : forall S price most w_p w_q M events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> admits S = reserves M -> run S initial events = Some s ->
  certificate s <= most * (Z.max w_p w_q * M).
Proof.
  intros S price most w_p w_q M events s Co Pr Wp Wq HM Ad H.
  destruct (some_prompt_is_longest events) as [L Within]. destruct (some_output_is_longest _ _ Within) as [O A].
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  apply (certificate_is_within S L O) with (events := events); auto; [nia|].
  intros running j R J Fits. rewrite Ad in Fits. unfold reserves in Fits. apply Z.leb_le in Fits.
  rewrite (committed_is S price w_p w_q Co), (unpaid_is S price w_p w_q Co), <- Z.mul_add_distr_l.
  apply (by_price price most Pr); [nia|].
  pose proof (unpaid_of_reserved_by_chunk S L O w_p w_q (owner j) running Wp Wq R) as X.
  cbn [reserved] in Fits. unfold size in Fits. destruct J as (F & _). unfold well_formed in F.
  assert (w_p * (prompt j - paid_prompt j) <= Z.max w_p w_q * prompt j) by nia.
  assert (w_q * (limit j - paid_outputs j) <= Z.max w_p w_q * limit j) by nia.
  nia.
Qed.

(* --- peak occupancy -------------------------------------------------------------------------------------------------- *)

Fixpoint alive_up_to (n : nat) (jobs : list job) : Z :=
  match n with O => 0 | Datatypes.S m => alive (Z.of_nat (Datatypes.S m)) jobs + alive_up_to m jobs end.

Fixpoint all_remaining (jobs : list job) : Z :=
  match jobs with [] => 0 | j :: rest => remaining j + all_remaining rest end.

Lemma alive_up_to_none : forall n, alive_up_to n [] = 0.
Proof. induction n; simpl in *; lia. Qed.

Lemma alive_up_to_one : forall n j jobs,
  alive_up_to n (j :: jobs) = Z.min (Z.of_nat n) (Z.max 0 (remaining j)) + alive_up_to n jobs.
Proof.
  induction n as [|n IH]; intros j jobs; cbn [alive_up_to]; [lia|].
  rewrite IH. cbn [alive]. destruct (Z.leb_spec (Z.of_nat (Datatypes.S n)) (remaining j)); lia.
Qed.

(* Each output that is left is alive at one step. *)
Lemma remaining_is_alive : forall n jobs, (forall j, In j jobs -> 0 <= remaining j <= Z.of_nat n) ->
  all_remaining jobs = alive_up_to n jobs.
Proof.
  induction jobs as [|j jobs IH]; intros A; [rewrite alive_up_to_none; auto|].
  rewrite alive_up_to_one. cbn [all_remaining]. rewrite IH by (intros; apply A; right; auto).
  pose proof (A j (or_introl eq_refl)). lia.
Qed.

Lemma alive_at_most_all : forall t jobs, 0 <= alive t jobs <= Z.of_nat (length jobs).
Proof. induction jobs as [|j jobs IH]; cbn [alive length]; [lia|]. destruct (t <=? remaining j); lia. Qed.

Lemma alive_hold : forall t jobs, (forall j, In j jobs -> well_formed j) -> 0 <= t ->
  alive t jobs * t <= occupancy t jobs.
Proof.
  induction jobs as [|j jobs IH]; intros A T; cbn [alive occupancy]; [lia|].
  pose proof (A j (or_introl eq_refl)) as F. unfold well_formed in F.
  assert (alive t jobs * t <= occupancy t jobs) by (apply IH; auto; intros; apply A; right; auto).
  destruct (t <=? remaining j); lia.
Qed.

Lemma alive_is_harmonic : forall M seats jobs n, (forall j, In j jobs -> well_formed j) ->
  Z.of_nat (length jobs) <= seats -> at_each_step n (fun t => occupancy t jobs <=? M) = true ->
  alive_up_to n jobs <= harmonic M seats n.
Proof.
  induction n as [|n IH]; intros F K A; cbn [alive_up_to harmonic]; [lia|].
  cbn [at_each_step] in A. apply andb_true_iff in A. destruct A as [A B]. apply Z.leb_le in A.
  specialize (IH F K B).
  pose proof (alive_at_most_all (Z.of_nat (Datatypes.S n)) jobs).
  pose proof (alive_hold (Z.of_nat (Datatypes.S n)) jobs F ltac:(lia)).
  assert (alive (Z.of_nat (Datatypes.S n)) jobs <= M / Z.of_nat (Datatypes.S n))
    by (apply Z.div_le_lower_bound; lia).
  lia.
Qed.

Lemma unpaid_of_remaining : forall S L O w_p w_q u jobs, 0 <= w_p -> 0 <= w_q -> by_chunk S = false ->
  (forall k, In k jobs -> within L O k /\ prompt_is_paid S k) -> unpaid_tokens w_p w_q u jobs <= w_q * all_remaining jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens all_remaining]; intros Wp Wq Ch A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= w_q * all_remaining jobs) by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _ & _) & P). rewrite (P Ch).
  unfold well_formed in F. unfold remaining. destruct (Nat.eqb (owner j) u); nia.
Qed.

Lemma U_of_peak_occupancy : forall S price most w_p w_q M L seats longest events s,
  costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> 0 <= seats -> by_chunk S = false -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> run S initial events = Some s ->
  certificate s <= most * (w_p * L + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s Co Pr Wp Wq HM HL HK Ch Ad A H.
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  assert (Pos : forall n, 0 <= harmonic M seats n).
  { induction n as [|n IH]; cbn [harmonic]; [lia|].
    pose proof (Z.div_pos M (Z.of_nat (Datatypes.S n)) HM ltac:(lia)). lia. }
  specialize (Pos longest).
  apply (certificate_is_within S L (Z.of_nat longest)) with (events := events); auto; [nia|].
  intros running j R J Fits. rewrite Ad in Fits. unfold peak_fits in Fits.
  apply andb_true_iff in Fits. destruct Fits as [Seats Fits]. apply Z.leb_le in Seats.
  rewrite (committed_is S price w_p w_q Co), (unpaid_is S price w_p w_q Co), <- Z.mul_add_distr_l.
  apply (by_price price most Pr); [nia|].
  pose proof (unpaid_of_remaining S L _ w_p w_q (owner j) running Wp Wq Ch R) as X.
  assert (Fs : forall k, In k (j :: running) -> within L (Z.of_nat longest) k)
    by (intros k [<-|K]; auto; apply R; auto).
  assert (Left : all_remaining (j :: running) <= harmonic M seats longest).
  { rewrite (remaining_is_alive longest).
    - apply alive_is_harmonic; auto. intros k K. apply Fs; auto.
    - intros k K. destruct (Fs k K) as (F & _ & O). unfold well_formed in F. unfold remaining. lia. }
  cbn [all_remaining] in Left. unfold remaining at 1 in Left.
  destruct J as (F & Lj & _). unfold well_formed in F.
  assert (w_p * (prompt j - paid_prompt j) <= w_p * L) by nia.
  assert (w_q * (limit j - paid_outputs j) <= w_q * (limit j - outputs j)) by nia.
  nia.
Qed.
