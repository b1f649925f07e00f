(* What a client got, in tokens that were delivered to it: counted from the events, not from the counters. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds.
Import ListNotations.
Open Scope Z_scope.

Definition of_client (u : nat) (found : option (job * list job)) (tokens : job -> Z) : Z :=
  match found with Some (j, _) => if Nat.eqb (owner j) u then tokens j else 0 | None => 0 end.

(* Positions of a prompt up to some place that it has not paid for. *)
Definition beyond (upto : Z) (j : job) : Z := Z.max 0 (Z.min upto (prompt j) - paid_prompt j).

(* Prompt tokens that an event is the first to take: all of a prompt when its request is first picked, or by the chunk those
   that are computed; none twice. *)
Definition inputs_of (S : scheduler) (u : nat) (s : state) (e : event) : Z :=
  match e with
  | Pick name cached => of_client u (take name (waiting s)) (fun j => beyond (if by_chunk S then cached else prompt j) j)
  | Compute name upto => of_client u (take name (running s)) (beyond upto)
  | _ => 0
  end.

Definition outputs_of (u : nat) (s : state) (e : event) : Z :=
  match e with Serve name => of_client u (take name (running s)) (fun _ => 1) | _ => 0 end.

(* All through a run. *)
Fixpoint delivered (S : scheduler) (tokens : state -> event -> Z) (s : state) (events : list event) : Z :=
  match events with
  | [] => 0
  | e :: rest => tokens s e + match step S s e with Some t => delivered S tokens t rest | None => 0 end
  end.

(* Its service by weights: w_p for each prompt token, w_q for each output. *)
Definition tokens (S : scheduler) (w_p w_q : Z) (u : nat) (s : state) (events : list event) : Z :=
  w_p * delivered S (inputs_of S u) s events + w_q * delivered S (outputs_of u) s events.

Definition predicts_nothing (events : list event) : Prop :=
  forall name u p most guess, In (Arrive name u p most guess) events -> guess = 0.

(* --- each event ------------------------------------------------------------------------------------------------------- *)

Section Priced.
Variable S : scheduler.
Variables (price : nat -> Z) (w_p w_q : Z).
Hypothesis priced : costs S = linear price w_p w_q.

(* Nothing is paid ahead. *)
Definition level (j : job) : Prop := paid_outputs j = outputs j /\ predicted j = 0 /\ 0 <= outputs j /\ 0 <= paid_prompt j <= prompt j.

Definition all_level (s : state) : Prop := forall j, In j (waiting s) \/ In j (running s) -> level j.

Lemma billed_is : forall j, billed S j = price (owner j) * (w_p * paid_prompt j + w_q * paid_outputs j).
Proof. intros j. unfold billed. rewrite priced. simpl. destruct (entered j); ring. Qed.

Lemma enter_service : forall lifted j s, service (enter S lifted j s) = service s.
Proof. intros. unfold enter. destruct (if lifted && negb (waits (owner j) s) then lift S s else None); reflexivity. Qed.

Lemma enter_level : forall lifted j s, all_level s -> level j -> all_level (enter S lifted j s).
Proof.
  intros lifted j s A L k. unfold enter.
  destruct (if lifted && negb (waits (owner j) s) then lift S s else None); simpl; intros [[<-|K]|K]; first [exact L|apply A; auto].
Qed.

Lemma nothing_is_due : forall j s, level j -> settled S j s = State (set (counter s) (owner j) (counter s (owner j)))
  (set (service s) (owner j) (service s (owner j))) (waiting s) (running s) (last_left s) (virtual_time s) (certificate s) (picks s).
Proof.
  intros j s (P & _). unfold settled. rewrite !billed_is. simpl. rewrite P, Z.sub_diag.
  f_equal; f_equal; destruct (floors_refunds S); lia.
Qed.

Lemma set_as_is : forall (f : nat -> Z) u i, set f u (f u) i = f i.
Proof. intros. at_client i u; reflexivity. Qed.

Lemma one_event : forall s e t, all_level s -> predicts_nothing [e] -> step S s e = Some t ->
  all_level t /\ forall u, service t u - service s u = price u * (w_p * inputs_of S u s e + w_q * outputs_of u s e).
Proof.
  intros s e t A N. destruct e; cbn [step inputs_of outputs_of].
  - destruct (_ && _) eqn:G; [|discriminate]. intros H; inversion H. rewrite enter_service. split; [|intros; lia].
    apply enter_level; auto. rewrite !andb_true_iff, !Z.leb_le in G. specialize (N _ _ _ _ _ (or_introl eq_refl)).
    unfold level; simpl; lia.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate]. intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R].
    pose proof (A j (or_introl J)) as L. split.
    + intros k [K|[<-|K]]; [apply A; auto| |apply A; auto]. unfold level in *. simpl. lia.
    + intros u. unfold picked. cbn [service of_client]. rewrite !billed_is. unfold level in L. cbn. unfold beyond.
      at_client u (owner j); destruct (by_chunk S); nia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. pose proof (A j (or_intror J)) as L. split.
    + intros k [K|[<-|K]]; [apply A; auto| |apply A; auto]. unfold level in *. simpl. lia.
    + intros u. unfold charged. cbn [service of_client]. rewrite !billed_is. unfold level in L. cbn. unfold beyond.
      at_client u (owner j); nia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate]. intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R].
    pose proof (A j (or_intror J)) as L. split.
    + intros k [K|[<-|K]]; [apply A; auto| |apply A; auto]. unfold level in *. simpl. lia.
    + intros u. unfold charged. cbn [service of_client]. rewrite !billed_is. unfold level in L. cbn.
      at_client u (owner j); nia.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. pose proof (A j (or_intror J)) as L.
    rewrite nothing_is_due by auto. cbn. split; [|intros; rewrite set_as_is; lia]. intros k [K|K]; apply A; auto.
  - destruct (take name (waiting s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. pose proof (A j (or_introl J)) as L.
    rewrite nothing_is_due by auto. cbn. split; [|intros; rewrite set_as_is; lia]. intros k [K|K]; apply A; auto.
  - destruct (take name (running s)) as [[j rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T) as [J R]. pose proof (A j (or_intror J)) as L.
    rewrite enter_service. split; [|intros; cbn; lia]. apply enter_level; auto. intros k [K|K]; apply A; auto.
Qed.

Lemma all_events : forall events s t, all_level s -> predicts_nothing events -> run S s events = Some t ->
  all_level t /\ forall u, got u s t = price u * tokens S w_p w_q u s events.
Proof.
  unfold got, tokens. induction events as [|e events IH]; cbn [run delivered]; intros s t A N H.
  { inversion H; subst. split; auto. intros; lia. }
  destruct (step S s e) as [m|] eqn:E; [|discriminate].
  destruct (one_event s e m A ltac:(intros n u p o g [->|[]]; eapply N; left; reflexivity) E) as [B D].
  destruct (IH m t B ltac:(intros n u p o g K; eapply N; right; exact K) H) as [C F].
  split; auto. intros u. specialize (D u). specialize (F u). lia.
Qed.

Lemma from_the_begin : forall before events s t, predicts_nothing (before ++ events) ->
  run S initial before = Some s -> run S s events = Some t -> forall u, got u s t = price u * tokens S w_p w_q u s events.
Proof.
  intros before events s t N R H.
  destruct (all_events before initial s ltac:(intros j [[]|[]])
              ltac:(intros n u p o g K; eapply N; apply in_or_app; left; exact K) R) as [A _].
  apply (all_events events s t A); auto. intros n u p o g K. eapply N. apply in_or_app. right. exact K.
Qed.
End Priced.
