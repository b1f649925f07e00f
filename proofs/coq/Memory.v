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

(* Each asks for so many outputs at least. *)
Definition asks_for_outputs (fewest : Z) (events : list event) : Prop :=
  forall name u p most guess, In (Arrive name u p most guess) events -> fewest <= most.

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
Variables longest_prompt longest_output fewest bound : Z.

(* Outputs come after the prompt. *)
Definition within (j : job) : Prop :=
  well_formed j /\ prompt j <= longest_prompt /\ limit j <= longest_output /\ fewest <= limit j
  /\ (0 < outputs j -> paid_prompt j = prompt j).

(* Who runs has paid for its prompt, unless it is charged by the chunk. *)
Definition prompt_is_paid (j : job) : Prop := by_chunk S = false -> paid_prompt j = prompt j.

Hypothesis nobody_is_held : holds S = no_caps.
Hypothesis bound_nonneg : 0 <= bound.
Hypothesis bound_holds : forall running j,
  (forall k, In k running -> within k /\ prompt_is_paid k) -> within j -> admits S running j = true ->
  unpaid S j + committed S (owner j) running <= bound.

Record Within (s : state) : Prop := {
  waiting_within : forall j, In j (waiting s) -> within j;
  running_within : forall j, In j (running s) -> within j /\ prompt_is_paid j;
  certificate_within : certificate s <= bound }.

Lemma nobody_is_passed_over : forall s, passed_over S s = 0.
Proof.
  intros s. unfold passed_over, ready. rewrite nobody_is_held.
  assert (E : forall jobs, filter (fun j => negb (no_caps (waiting s) (running s) (owner j))) jobs = jobs)
    by (unfold no_caps; cbn [negb]; induction jobs as [|j jobs IH]; cbn [filter]; congruence).
  rewrite E. destruct (least (counter s) (waiting s)); lia.
Qed.

Lemma enter_within : forall lifted j s, Within s -> within j -> Within (enter S lifted j s).
Proof.
  intros lifted j s [A B C] W. unfold enter.
  destruct (if lifted && negb (waits (owner j) s) then lift S s else None); split; simpl; auto; intros k [<-|K]; auto.
Qed.

Lemma step_within : forall s e t, Within s -> step S s e = Some t -> arrivals_within longest_prompt longest_output [e] ->
  fewest <= 0 \/ asks_for_outputs fewest [e] -> Within t.
Proof.
  intros s e t W. destruct e; simpl.
  - destruct (_ && _) eqn:G; [|discriminate]. intros H A Fe; inversion H. apply enter_within; auto.
    destruct (A _ _ _ _ _ (or_introl eq_refl)). rewrite !andb_true_iff, !Z.leb_le in G.
    assert (fewest <= max_outputs) by (destruct Fe as [Fe|Fe]; [lia|eapply Fe; left; reflexivity]).
    unfold within, well_formed; simpl; lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (in_turn S j s && admits S (running s) j) eqn:G; [|discriminate]. apply andb_true_iff in G.
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    pose proof (bound_holds _ _ B (A _ Hj) (proj2 G)) as U. destruct (A _ Hj) as (F & L).
    split; cbn [picked waiting running certificate]; auto.
    + intros k [<-|K]; auto. split.
      * split; [apply paid_formed; auto; apply F|]. unfold well_formed in F. simpl. lia.
      * unfold prompt_is_paid. intros Eq. rewrite Eq. simpl. destruct F. lia.
    + rewrite nobody_is_passed_over. cbn [committed].
      change (owner (paid_up_to j (if by_chunk S then cached else prompt j) (predicted j))) with (owner j).
      rewrite Nat.eqb_refl. unfold unpaid in *.
      change (whole S (paid_up_to j (if by_chunk S then cached else prompt j) (predicted j))) with (whole S j). lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [charged waiting running certificate]; auto.
    intros k [<-|K]; auto. destruct (B _ Hj) as ((F & L) & P). split.
    + split; [apply paid_formed; auto|]; unfold well_formed in F; simpl; lia.
    + intros Eq. specialize (P Eq). simpl. lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _) eqn:G; [|discriminate]. apply andb_true_iff in G. rewrite Z.ltb_lt, Z.leb_le in G.
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [charged waiting running certificate]; auto.
    intros k [<-|K]; auto. destruct (B _ Hj) as ((F & L) & P). split; auto.
    split; [apply one_more_formed; tauto|]. unfold well_formed in F. simpl. lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [settled with_running waiting running certificate]; auto.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    split; cbn [settled with_waiting waiting running certificate]; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H _ _; inversion H. destruct (take_in _ _ _ _ T) as [Hj Hr]. destruct W as [A B C].
    apply enter_within; [|apply B; auto]. split; simpl; auto.
Qed.

Lemma run_within : forall events s t, Within s -> arrivals_within longest_prompt longest_output events ->
  fewest <= 0 \/ asks_for_outputs fewest events -> run S s events = Some t -> Within t.
Proof.
  induction events as [|e events IH]; simpl; intros s t W A Fe H; [inversion H; subst; auto|].
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  apply (IH m t); auto.
  - eapply step_within; eauto.
    + intros name u p most guess [->|[]]. eapply A. left. reflexivity.
    + destruct Fe as [Fe|Fe]; auto. right. intros name u p most guess [->|[]]. eapply Fe. left. reflexivity.
  - intros name u p most guess K. eapply A. right. eauto.
  - destruct Fe as [Fe|Fe]; auto. right. intros name u p most guess K. eapply Fe. right. eauto.
Qed.

Lemma certificate_is_within : forall events s, arrivals_within longest_prompt longest_output events ->
  fewest <= 0 \/ asks_for_outputs fewest events -> run S initial events = Some s -> certificate s <= bound.
Proof.
  intros events s A Fe H. apply (run_within events initial s); auto.
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
  (forall k, In k jobs -> within L O 0 k /\ prompt_is_paid S k) -> unpaid_tokens w_p w_q u jobs <= w_q * reserved jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens reserved]; intros Wp Wq Ch A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= w_q * reserved jobs) by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _) & P). rewrite (P Ch).
  unfold well_formed in F. unfold size. destruct (Nat.eqb (owner j) u); nia.
Qed.

Lemma U_of_reserving : forall S price most w_p w_q M L events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> by_chunk S = false -> admits S = reserves M ->
  prompts_within L events -> run S initial events = Some s ->
  certificate s <= most * U_of_reservation w_p w_q M L.
Proof.
  intros S price most w_p w_q M L events s No Co Pr Wp Wq HM HL Ch Ad Within H.
  destruct (some_output_is_longest _ _ Within) as [O A].
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  assert (0 <= U_of_reservation w_p w_q M L) by (unfold U_of_reservation; nia).
  apply (certificate_is_within S L O 0) with (events := events); auto; [nia| |left; lia].
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
  (forall k, In k jobs -> within L O 0 k /\ prompt_is_paid S k) ->
  unpaid_tokens w_p w_q u jobs <= Z.max w_p w_q * reserved jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens reserved]; intros Wp Wq A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= Z.max w_p w_q * reserved jobs)
    by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _) & _). unfold well_formed in F. unfold size.
  assert (w_p * (prompt j - paid_prompt j) <= Z.max w_p w_q * prompt j) by nia.
  assert (w_q * (limit j - paid_outputs j) <= Z.max w_p w_q * limit j) by nia.
  destruct (Nat.eqb (owner j) u); nia.
Qed.

(* Several prompts of a client may be unpaid then; with w_p <= w_q it is the same constant. *)
Lemma U_of_reserving_by_chunk : forall S price most w_p w_q M events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> admits S = reserves M -> run S initial events = Some s ->
  certificate s <= most * (Z.max w_p w_q * M).
Proof.
  intros S price most w_p w_q M events s No Co Pr Wp Wq HM Ad H.
  destruct (some_prompt_is_longest events) as [L Within]. destruct (some_output_is_longest _ _ Within) as [O A].
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  apply (certificate_is_within S L O 0) with (events := events); auto; [nia| |left; lia].
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
  (forall k, In k jobs -> within L O 0 k /\ prompt_is_paid S k) -> unpaid_tokens w_p w_q u jobs <= w_q * all_remaining jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens all_remaining]; intros Wp Wq Ch A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= w_q * all_remaining jobs) by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as ((F & _) & P). rewrite (P Ch).
  unfold well_formed in F. unfold remaining. destruct (Nat.eqb (owner j) u); nia.
Qed.

Lemma U_of_peak_occupancy : forall S price most w_p w_q M L seats longest events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= L -> 0 <= seats -> by_chunk S = false -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> run S initial events = Some s ->
  certificate s <= most * (w_p * L + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HL HK Ch Ad A H.
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  assert (Pos : forall n, 0 <= harmonic M seats n).
  { induction n as [|n IH]; cbn [harmonic]; [lia|].
    pose proof (Z.div_pos M (Z.of_nat (Datatypes.S n)) HM ltac:(lia)). lia. }
  specialize (Pos longest).
  apply (certificate_is_within S L (Z.of_nat longest) 0) with (events := events); auto; [nia| |left; lia].
  intros running j R J Fits. rewrite Ad in Fits. unfold peak_fits in Fits.
  apply andb_true_iff in Fits. destruct Fits as [Seats Fits]. apply Z.leb_le in Seats.
  rewrite (committed_is S price w_p w_q Co), (unpaid_is S price w_p w_q Co), <- Z.mul_add_distr_l.
  apply (by_price price most Pr); [nia|].
  pose proof (unpaid_of_remaining S L _ w_p w_q (owner j) running Wp Wq Ch R) as X.
  assert (Fs : forall k, In k (j :: running) -> within L (Z.of_nat longest) 0 k)
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

(* Prompts charged by the chunk: who has not paid for its prompt has no output yet, so that the prompt is held in the next
   step, and all that are held fit. *)
Fixpoint unpaid_prompts (jobs : list job) : Z :=
  match jobs with [] => 0 | j :: rest => prompt j - paid_prompt j + unpaid_prompts rest end.

Lemma unpaid_by_chunk : forall L O w_p w_q u jobs, 0 <= w_p -> 0 <= w_q -> (forall k, In k jobs -> within L O 1 k) ->
  unpaid_tokens w_p w_q u jobs <= w_p * unpaid_prompts jobs + w_q * all_remaining jobs.
Proof.
  induction jobs as [|j jobs IH]; cbn [unpaid_tokens unpaid_prompts all_remaining]; intros Wp Wq A; [lia|].
  assert (unpaid_tokens w_p w_q u jobs <= w_p * unpaid_prompts jobs + w_q * all_remaining jobs)
    by (apply IH; auto; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as (F & _). unfold well_formed in F. unfold remaining.
  assert (0 <= w_p * (prompt j - paid_prompt j)) by nia.
  assert (0 <= w_q * (limit j - outputs j)) by nia.
  assert (w_q * (limit j - paid_outputs j) <= w_q * (limit j - outputs j)) by nia.
  destruct (Nat.eqb (owner j) u); lia.
Qed.

Lemma unpaid_prompts_are_held : forall L O jobs, (forall k, In k jobs -> within L O 1 k) ->
  unpaid_prompts jobs <= occupancy 1 jobs.
Proof.
  induction jobs as [|j jobs IH]; intros A; cbn [unpaid_prompts occupancy]; [lia|].
  assert (unpaid_prompts jobs <= occupancy 1 jobs) by (apply IH; intros; apply A; right; auto).
  destruct (A j (or_introl eq_refl)) as (F & _ & _ & Fe & P). unfold well_formed in F. unfold remaining.
  destruct (Z.leb_spec 1 (limit j - outputs j)); [lia|]. rewrite P by lia. lia.
Qed.

Lemma at_the_next_step : forall n ok, (1 <= n)%nat -> at_each_step n ok = true -> ok 1 = true.
Proof.
  induction n as [|n IH]; intros ok L A; [lia|]. cbn [at_each_step] in A. apply andb_true_iff in A.
  destruct n as [|n]; [apply A|]. apply IH; [lia|apply A].
Qed.

Lemma U_of_peak_occupancy_by_chunk : forall S price most w_p w_q M L seats longest events s,
  holds S = no_caps -> costs S = linear price w_p w_q -> (forall u, 0 <= price u <= most) -> 0 <= w_p -> 0 <= w_q ->
  0 <= M -> 0 <= seats -> admits S = peak_fits M seats longest ->
  arrivals_within L (Z.of_nat longest) events -> asks_for_outputs 1 events -> run S initial events = Some s ->
  certificate s <= most * (w_p * M + w_q * harmonic M seats longest).
Proof.
  intros S price most w_p w_q M L seats longest events s No Co Pr Wp Wq HM HK Ad A Fe H.
  assert (0 <= most) by (specialize (Pr 0%nat); lia).
  assert (Pos : forall n, 0 <= harmonic M seats n).
  { induction n as [|n IH]; cbn [harmonic]; [lia|].
    pose proof (Z.div_pos M (Z.of_nat (Datatypes.S n)) HM ltac:(lia)). lia. }
  specialize (Pos longest).
  apply (certificate_is_within S L (Z.of_nat longest) 1) with (events := events); auto; [nia|].
  intros running j R J Fits. rewrite Ad in Fits. unfold peak_fits in Fits.
  apply andb_true_iff in Fits. destruct Fits as [Seats Fits]. apply Z.leb_le in Seats.
  rewrite (committed_is S price w_p w_q Co), (unpaid_is S price w_p w_q Co), <- Z.mul_add_distr_l.
  apply (by_price price most Pr); [nia|].
  assert (Fs : forall k, In k (j :: running) -> within L (Z.of_nat longest) 1 k)
    by (intros k [<-|K]; auto; apply R; auto).
  assert (Left : all_remaining (j :: running) <= harmonic M seats longest).
  { rewrite (remaining_is_alive longest).
    - apply alive_is_harmonic; auto. intros k K. apply Fs; auto.
    - intros k K. destruct (Fs k K) as (F & _ & O & _). unfold well_formed in F. unfold remaining. lia. }
  assert (Held : unpaid_prompts (j :: running) <= M).
  { pose proof (unpaid_prompts_are_held _ _ _ Fs). destruct J as (_ & _ & O & F1 & _).
    pose proof (at_the_next_step longest _ ltac:(lia) Fits) as N. cbn beta in N. apply Z.leb_le in N. lia. }
  pose proof (unpaid_by_chunk L _ w_p w_q (owner j) (j :: running) Wp Wq Fs) as X.
  cbn [unpaid_tokens] in X. rewrite Nat.eqb_refl in X.
  assert (w_p * unpaid_prompts (j :: running) <= w_p * M) by nia.
  assert (w_q * all_remaining (j :: running) <= w_q * harmonic M seats longest) by nia.
  lia.
Qed.
