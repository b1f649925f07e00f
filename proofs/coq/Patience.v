(* What a request that waits has seen: counted from the events since it began to wait. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds.
Import ListNotations.
Open Scope Z_scope.

Fixpoint picks_in (events : list event) : Z :=
  match events with
  | [] => 0
  | Pick _ _ :: rest => 1 + picks_in rest
  | _ :: rest => picks_in rest
  end.

Lemma picks_in_app : forall a b, picks_in (a ++ b) = picks_in a + picks_in b.
Proof. induction a as [|e a IH]; intros b; cbn [app picks_in]; [lia|]. rewrite IH. destruct e; lia. Qed.

Section Seen.
Variable S : scheduler.

(* It waits since the last of some events: it has been there all through those after them. *)
Definition waits_since (before after : list event) (j : job) : Prop :=
  exists s, run S initial before = Some s /\ throughout S (fun x => In j (waiting x)) s after.

Lemma throughout_more : forall P events s t e u, throughout S P s events -> run S s events = Some t -> step S t e = Some u ->
  P u -> throughout S P s (events ++ [e]).
Proof.
  induction events as [|d events IH]; cbn [app throughout run]; intros s t e u A R E Pu.
  - inversion R; subst. rewrite E. destruct A. auto.
  - destruct A as [A B]. split; auto. destruct (step S s d) as [m|]; [|discriminate]. eapply IH; eauto.
Qed.

Lemma throughout_ends : forall (P : state -> Prop) events s t, throughout S P s events -> run S s events = Some t -> P t.
Proof.
  induction events as [|e events IH]; cbn [throughout run]; intros s t [A B] H; [inversion H; subst; auto|].
  destruct (step S s e); [eauto|discriminate].
Qed.

Lemma enter_waits : forall lifted j s, waiting (enter S lifted j s) = begins_to_wait (picks s) j :: waiting s
  /\ picks (enter S lifted j s) = picks s.
Proof. intros. unfold enter. destruct (if lifted && negb (waits (owner j) s) then lift S s else None); auto. Qed.

(* Who waits after an event waited before it, or begins to. *)
Lemma who_waits : forall s e t j, step S s e = Some t -> In j (waiting t) ->
  (In j (waiting s) \/ since j = picks t) /\ picks t = picks s + picks_in [e].
Proof.
  intros s e t j. destruct e; cbn [step picks_in].
  - destruct (_ && _); [|discriminate]. intros H; inversion H.
    destruct (enter_waits true (Job name client prompt_tokens max_outputs prediction false 0 0 0 0) s) as [-> ->].
    intros [<-|K]; split; cbn; auto; lia.
  - destruct (take name (waiting s)) as [[k rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate]. intros H; inversion H. destruct (take_in _ _ _ _ T). cbn. split; auto; lia.
  - destruct (take name (running s)) as [[k rest]|] eqn:T; [|discriminate]. intros H; inversion H. cbn. split; auto; lia.
  - destruct (take name (running s)) as [[k rest]|] eqn:T; [|discriminate].
    destruct (_ && _); [|discriminate]. intros H; inversion H. cbn. split; auto; lia.
  - destruct (take name (running s)) as [[k rest]|] eqn:T; [|discriminate]. intros H; inversion H. cbn. split; auto; lia.
  - destruct (take name (waiting s)) as [[k rest]|] eqn:T; [|discriminate].
    intros H; inversion H. destruct (take_in _ _ _ _ T). cbn. split; auto; lia.
  - destruct (take name (running s)) as [[k rest]|] eqn:T; [|discriminate]. intros H; inversion H.
    destruct (enter_waits (lifts_victims S) k (with_running rest s)) as [-> ->].
    intros [<-|K]; split; cbn; auto; lia.
Qed.

Lemma run_snoc : forall events e s t, run S s (events ++ [e]) = Some t ->
  exists m, run S s events = Some m /\ step S m e = Some t.
Proof.
  induction events as [|d events IH]; cbn [app run]; intros e s t H.
  - exists s. destruct (step S s e); [|discriminate]. inversion H; subst. auto.
  - destruct (step S s d); [|discriminate]. eauto.
Qed.

Lemma what_it_has_seen : forall events s j, run S initial events = Some s -> In j (waiting s) ->
  exists before after, events = before ++ after /\ waits_since before after j /\ picks s - since j = picks_in after.
Proof.
  induction events as [|e events IH] using rev_ind; intros s j R J; [inversion R; subst; destruct J|].
  destruct (run_snoc _ _ _ _ R) as (m & Rm & E). destruct (who_waits _ _ _ _ E J) as [[K|K] P].
  - destruct (IH m j Rm K) as (before & after & -> & (b & Rb & T) & Seen).
    exists before, (after ++ [e]). rewrite app_assoc. split; auto. split.
    + exists b. split; auto. eapply throughout_more; eauto.
      clear -Rm Rb. revert b Rb. assert (G : forall a i b, run S i (a ++ after) = Some m -> run S i a = Some b -> run S b after = Some m).
      { induction a as [|d a IH]; cbn [app run]; intros i b A B; [inversion B; subst; auto|].
        destruct (step S i d); [eauto|discriminate]. }
      intros b Rb. eapply G; eauto.
    + rewrite picks_in_app. lia.
  - exists (events ++ [e]), []. rewrite app_nil_r. split; auto. split; [|cbn; lia].
    exists s. split; auto. cbn. auto.
Qed.
End Seen.
