(* Caps of clients hold all through: whoever is picked was not at one. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds.
Import ListNotations.
Open Scope Z_scope.

(* Each pick is of the oldest request of its client. *)
Fixpoint oldest_first (S : scheduler) (s : state) (events : list event) : Prop :=
  match events with
  | [] => True
  | e :: rest =>
      match e with
      | Pick name _ => match take name (waiting s) with
                       | Some (j, _) => oldest (own (owner j) (waiting s)) = Some j
                       | None => True
                       end
      | _ => True
      end
      /\ match step S s e with Some t => oldest_first S t rest | None => True end
  end.

Section Capped.
Variable S : scheduler.
Variables seats tokens : Z.
Hypothesis capped : holds S = at_a_cap seats tokens.

Definition sized (j : job) : Prop := 0 <= prompt j /\ 0 <= limit j.

Definition within_caps (jobs : list job) : Prop := forall u,
  (0 < seats -> Z.of_nat (length (own u jobs)) <= seats)
  /\ (0 < tokens -> (length (own u jobs) <= 1)%nat \/ declared (own u jobs) <= tokens).

Definition capped_state (s : state) : Prop :=
  (forall j, In j (waiting s) \/ In j (running s) -> sized j) /\ within_caps (running s).

(* Who is taken out counts as before, if it stood first. *)
Lemma take_own : forall u name jobs j rest, take name jobs = Some (j, rest) ->
  length (own u jobs) = length (own u (j :: rest)) /\ declared (own u jobs) = declared (own u (j :: rest)).
Proof.
  intros u name. induction jobs as [|x jobs IH]; intros j rest H; [discriminate|]. cbn [take] in H.
  destruct (Nat.eqb (id x) name); [inversion H; subst; auto|].
  destruct (take name jobs) as [[k others]|]; [|discriminate]. inversion H; subst.
  destruct (IH j others eq_refl) as [L D]. unfold own in *. cbn [filter] in *.
  destruct (Nat.eqb (owner x) u), (Nat.eqb (owner j) u); cbn [length declared] in *; lia.
Qed.

Lemma declared_nonneg : forall u jobs, (forall j, In j jobs -> sized j) -> 0 <= declared (own u jobs).
Proof.
  intros u. induction jobs as [|j jobs IH]; intros A; cbn; [lia|].
  specialize (IH ltac:(intros; apply A; right; auto)). destruct (A j (or_introl eq_refl)).
  destruct (Nat.eqb (owner j) u); cbn [declared]; unfold own in IH; lia.
Qed.

Lemma fewer : forall name jobs j rest, (forall k, In k jobs -> sized k) -> take name jobs = Some (j, rest) ->
  within_caps jobs -> within_caps rest.
Proof.
  intros name jobs j rest A T W u. destruct (W u) as [Ws Wt]. destruct (take_own u _ _ _ _ T) as [L D].
  destruct (take_in _ _ _ _ T) as [J R]. pose proof (A j J) as [Pj Lj]. unfold own in *. cbn [filter] in L, D.
  destruct (Nat.eqb (owner j) u); cbn [length declared] in *; split; intros P; try specialize (Ws P); try specialize (Wt P); lia.
Qed.

Lemma as_many : forall name jobs j k rest, take name jobs = Some (j, rest) -> owner k = owner j ->
  prompt k = prompt j -> limit k = limit j -> within_caps jobs -> within_caps (k :: rest).
Proof.
  intros name jobs j k rest T O P Li W u. destruct (W u) as [Ws Wt]. destruct (take_own u _ _ _ _ T) as [L D].
  unfold own in *. cbn [filter] in *. rewrite O.
  destruct (Nat.eqb (owner j) u); cbn [length declared] in *; rewrite ?P, ?Li, <- ?L, <- ?D; auto.
Qed.

Lemma enter_running : forall lifted j s, running (enter S lifted j s) = running s
  /\ waiting (enter S lifted j s) = begins_to_wait (picks s) j :: waiting s.
Proof. intros. unfold enter. destruct (if lifted && negb (waits (owner j) s) then lift S s else None); auto. Qed.

Lemma capped_step : forall s e t, capped_state s -> oldest_first S s [e] -> step S s e = Some t -> capped_state t.
Proof.
  intros s e t [A W] O. destruct e; cbn [step].
  - destruct (_ && _) eqn:G; [|discriminate]. intros H; inversion H. rewrite !andb_true_iff, !Z.leb_le in G.
    destruct (enter_running true (Job name client prompt_tokens max_outputs prediction false 0 0 0 0) s) as [Er Ew].
    split; [|rewrite Er; exact W]. rewrite Er, Ew. intros k [[<-|K]|K]; [unfold sized; cbn; lia|apply A; auto|apply A; auto].
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (in_turn S j s) eqn:Turn; [|discriminate]. destruct (admits S (running s) j); [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. cbn [oldest_first] in O. rewrite T in O. destruct O as [Old _].
    split; cbn [picked waiting running].
    { intros k [K|[<-|K]]; [apply A; auto|exact (A j (or_introl J))|apply A; auto]. }
    assert (Free : holds S (waiting s) (running s) (owner j) = false).
    { unfold in_turn in Turn. destruct (least _ _); [|discriminate]. apply andb_true_iff in Turn. destruct Turn as [F _].
      apply negb_true_iff. exact F. }
    rewrite capped in Free. unfold at_a_cap in Free. rewrite Old in Free.
    intros u. destruct (W u) as [Ws Wt]. unfold own. cbn [filter owner paid_up_to].
    destruct (Nat.eqb_spec (owner j) u) as [<-|N]; [|split; assumption].
    fold (own (owner j) (running s)). destruct (own (owner j) (running s)) as [|x some] eqn:E.
    + cbn. split; intros; [lia|left; lia].
    + apply orb_false_iff in Free. destruct Free as [Fs Ft]. cbn [declared length prompt limit paid_up_to] in *.
      split; intros P; [|right].
      * replace (0 <? seats) with true in Fs by (symmetry; apply Z.ltb_lt; lia). apply Z.leb_gt in Fs. lia.
      * replace (0 <? tokens) with true in Ft by (symmetry; apply Z.ltb_lt; lia). apply Z.ltb_ge in Ft. lia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. split; cbn [charged waiting running].
    + intros k [K|[<-|K]]; [apply A; auto|exact (A j (or_intror J))|apply A; auto].
    + eapply as_many; eauto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate]. intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. split; cbn [charged waiting running].
    + intros k [K|[<-|K]]; [apply A; auto|exact (A j (or_intror J))|apply A; auto].
    + eapply as_many; eauto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. split; cbn [settled with_running waiting running].
    + intros k [K|K]; apply A; auto.
    + eapply fewer; eauto.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. split; cbn [settled with_waiting waiting running]; auto.
    intros k [K|K]; apply A; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R].
    destruct (enter_running (lifts_victims S) j (with_running rest s)) as [Er Ew].
    split; [|rewrite Er; cbn [with_running running]; eapply fewer; eauto].
    rewrite Er, Ew. cbn [with_running waiting running]. intros k [[<-|K]|K]; [exact (A j (or_intror J))|apply A; auto|apply A; auto].
Qed.

Lemma capped_run : forall events s t, capped_state s -> oldest_first S s events -> run S s events = Some t -> capped_state t.
Proof.
  induction events as [|e events IH]; cbn [run]; intros s t C O H; [inversion H; subst; auto|].
  cbn [oldest_first] in O. destruct O as [Oe Or]. destruct (step S s e) as [m|] eqn:E; [|discriminate].
  apply (IH m t); auto. apply (capped_step s e m C); auto. cbn [oldest_first]. rewrite E. auto.
Qed.

Lemma capped_initial : capped_state initial.
Proof. split; [intros j [[]|[]]|]. intros u. cbn. split; intros; [lia|left; lia]. Qed.
End Capped.

(* Whoever is alone may exceed a cap on tokens. *)
(* part: LANE-7 *)
Theorem caps_of_clients_hold_all_through : forall S seats tokens events s u,
  holds S = at_a_cap seats tokens -> oldest_first S initial events -> run S initial events = Some s ->
  (0 < seats -> Z.of_nat (length (own u (running s))) <= seats)
  /\ (0 < tokens -> (length (own u (running s)) <= 1)%nat \/ declared (own u (running s)) <= tokens).
Proof.
  intros S seats tokens events s u C O R.
  exact (proj2 (capped_run S seats tokens C events initial s (capped_initial seats tokens) O R) u).
Qed.

(* Memory for any number; a seat for each client, or six tokens. *)
Definition capped_at (seats tokens : Z) : scheduler :=
  Scheduler (linear (fun _ => 1) 1 2) 0 0 no_burst 1 false (fun _ _ => true) (at_a_cap seats tokens) true true true true.

Definition three_ask : list event := [Arrive 0 0 2 1 0; Arrive 1 0 2 1 0; Arrive 2 0 2 1 0; Pick 0 0].

(* witness: caps_of_clients_hold_all_through *)
Theorem a_client_at_its_cap_waits_and_below_it_does_not : exists s t, run (capped_at 1 0) initial three_ask = Some s
  /\ oldest_first (capped_at 1 0) initial three_ask /\ step (capped_at 1 0) s (Pick 1 0) = None
  /\ run (capped_at 0 6) initial (three_ask ++ [Pick 1 0]) = Some t
  /\ oldest_first (capped_at 0 6) initial (three_ask ++ [Pick 1 0]) /\ step (capped_at 0 6) t (Pick 2 0) = None.
Proof.
  do 2 eexists. split; [vm_compute; reflexivity|]. split; [vm_compute; repeat split|]. split; [vm_compute; reflexivity|].
  split; [vm_compute; reflexivity|]. split; [vm_compute; repeat split|vm_compute; reflexivity].
Qed.
