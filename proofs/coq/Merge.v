(* Lemmas: the picks of the Virtual Token Counter are a sort. *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
From Schedspec Require Import Loops Scans Prefixes.
Import ListNotations.
Open Scope Z_scope.

(* --- the order of picks, and sorting by it ---------------------------------------------------------------------------------- *)

Definition comes_before (p q : pick) : Prop :=
  let '(k, (i, a)) := p in let '(l, (j, b)) := q in
  k < l \/ (k = l /\ ((i < j)%nat \/ (i = j /\ (a <= b)%nat))).

Lemma precedes_is : forall p q, precedes p q = true <-> comes_before p q.
Proof.
  intros [k [i a]] [l [j b]]. unfold precedes, comes_before.
  rewrite orb_true_iff, andb_true_iff, orb_true_iff, andb_true_iff, Z.ltb_lt, Z.eqb_eq, Nat.ltb_lt, Nat.eqb_eq, Nat.leb_le.
  tauto.
Qed.

Lemma precedes_not : forall p q, precedes p q = false -> precedes q p = true.
Proof.
  intros p q H. apply precedes_is. destruct (precedes p q) eqn:E; [discriminate|].
  assert (N : ~ comes_before p q) by (rewrite <- precedes_is; congruence).
  destruct p as [k [i a]], q as [l [j b]]. unfold comes_before in *. lia.
Qed.

Lemma precedes_both : forall p q, precedes p q = true -> precedes q p = true -> p = q.
Proof.
  intros [k [i a]] [l [j b]] P Q. apply precedes_is in P, Q. unfold comes_before in *.
  assert (k = l /\ i = j /\ a = b) as (-> & -> & ->) by lia. reflexivity.
Qed.

Lemma precedes_trans : forall p q r, precedes p q = true -> precedes q r = true -> precedes p r = true.
Proof.
  intros [k [i a]] [l [j b]] [m [h c]] P Q. rewrite precedes_is in *. unfold comes_before in *. lia.
Qed.

Lemma insert_swap : forall p q l, insert p (insert q l) = insert q (insert p l).
Proof.
  intros p q. induction l as [|x l IH]; cbn [insert].
  - destruct (precedes p q) eqn:A, (precedes q p) eqn:B; auto.
    + rewrite (precedes_both _ _ A B). reflexivity.
    + apply precedes_not in A. congruence.
  - destruct (precedes q x) eqn:Q, (precedes p x) eqn:P; cbn [insert]; rewrite ?P, ?Q.
    + destruct (precedes p q) eqn:A, (precedes q p) eqn:B; auto.
      * rewrite (precedes_both _ _ A B). reflexivity.
      * apply precedes_not in A. congruence.
    + destruct (precedes p q) eqn:A; [|reflexivity]. rewrite (precedes_trans _ _ _ A Q) in P. discriminate.
    + destruct (precedes q p) eqn:A; [|reflexivity]. rewrite (precedes_trans _ _ _ A P) in Q. discriminate.
    + rewrite IH. reflexivity.
Qed.

Lemma sorted_same : forall l m, Permutation l m -> sorted l = sorted m.
Proof.
  induction 1; cbn [sorted fold_right]; auto.
  - fold (sorted l) (sorted l'). congruence.
  - apply insert_swap.
  - congruence.
Qed.

Lemma insert_perm : forall p l, Permutation (p :: l) (insert p l).
Proof.
  induction l as [|q l IH]; cbn [insert]; auto. destruct (precedes p q); auto.
  eapply perm_trans; [apply perm_swap|]. apply perm_skip. auto.
Qed.

Lemma sorted_perm : forall l, Permutation l (sorted l).
Proof.
  induction l as [|p l IH]; cbn [sorted fold_right]; auto. fold (sorted l).
  eapply perm_trans; [apply perm_skip, IH|apply insert_perm].
Qed.

(* Each precedes all behind it. *)
Inductive in_order : list pick -> Prop :=
  | none : in_order []
  | one_more : forall p l, (forall q, In q l -> precedes p q = true) -> in_order l -> in_order (p :: l).

Lemma insert_in_order : forall p l, in_order l -> in_order (insert p l).
Proof.
  intros p. induction l as [|q l IH]; intros O; cbn [insert].
  - constructor; [intros ? []|constructor].
  - inversion O; subst. destruct (precedes p q) eqn:P.
    + constructor; auto. intros r [<-|R]; auto. eapply precedes_trans; eauto.
    + constructor; [|apply IH; auto]. intros r R.
      apply (Permutation_in _ (Permutation_sym (insert_perm p l))) in R. destruct R as [<-|R]; auto.
      apply precedes_not. auto.
Qed.

Lemma sorted_in_order : forall l, in_order (sorted l).
Proof. induction l as [|p l IH]; cbn [sorted fold_right]; [constructor|]. apply insert_in_order. auto. Qed.

Lemma first_is_least : forall p l, (forall q, In q l -> precedes p q = true) -> sorted (p :: l) = p :: sorted l.
Proof.
  intros p l A. cbn [sorted fold_right]. fold (sorted l).
  assert (B : forall q, In q (sorted l) -> precedes p q = true).
  { intros q Q. apply A. apply (Permutation_in _ (Permutation_sym (sorted_perm l))). auto. }
  destruct (sorted l) as [|q m]; cbn [insert]; [reflexivity|]. rewrite (B q (or_introl eq_refl)). reflexivity.
Qed.

(* Behind so many others it is not among the first so many. *)
Definition others_before (p : pick) (l : list pick) : nat := length (filter (fun q => negb (precedes p q)) l).

Lemma insert_behind : forall n p l, in_order l -> (n <= others_before p l)%nat -> firstn n (insert p l) = firstn n l.
Proof.
  induction n as [|n IH]; intros p l O L; [reflexivity|]. unfold others_before in L. inversion O as [|q m A O']; subst.
  { cbn in L. lia. }
  cbn [filter] in L. cbn [insert]. destruct (precedes p q) eqn:P; cbn [negb] in L.
  - exfalso. replace (filter (fun q => negb (precedes p q)) m) with (@nil pick) in L; [cbn in L; lia|].
    symmetry. clear -A P. induction m as [|r m IH]; cbn [filter]; auto.
    rewrite (precedes_trans p q r P (A r (or_introl eq_refl))). cbn [negb]. apply IH. intros; apply A; right; auto.
  - cbn [firstn length] in *. f_equal. apply IH; auto. unfold others_before. lia.
Qed.

Lemma filter_length_perm : forall (f : pick -> bool) l m, Permutation l m -> length (filter f l) = length (filter f m).
Proof.
  induction 1; cbn [filter]; auto.
  - destruct (f x); cbn [length]; lia.
  - destruct (f x), (f y); reflexivity.
  - congruence.
Qed.

Lemma first_of_all_are_first_of_some : forall n rest some,
  (forall r, In r rest -> (n <= others_before r some)%nat) ->
  firstn n (sorted (rest ++ some)) = firstn n (sorted some).
Proof.
  induction rest as [|r rest IH]; intros some A; [reflexivity|].
  cbn [app sorted fold_right]. fold (sorted (rest ++ some)). rewrite insert_behind.
  - apply IH. intros; apply A; right; auto.
  - apply sorted_in_order.
  - unfold others_before. rewrite <- (filter_length_perm _ _ _ (sorted_perm (rest ++ some))), filter_app, app_length.
    pose proof (A r (or_introl eq_refl)) as B. unfold others_before in B. lia.
Qed.

(* --- repeated picks are the sort of all keys ----------------------------------------------------------------------------------- *)

Definition cheap (c : client) : Prop := forall amount, In amount (charges c) -> 0 <= amount.

Definition all_keys (numbered : nat * client) : list pick := keys (length (charges (snd numbered))) numbered.

Definition from (first : nat) (clients : list client) : list (nat * client) := combine (seq first (length clients)) clients.

Lemma from_cons : forall first c clients, from first (c :: clients) = (first, c) :: from (S first) clients.
Proof. reflexivity. Qed.

Lemma all_keys_pay : forall i c amount others, charges c = amount :: others ->
  all_keys (i, c) = (counter c, (i, begin c)) :: all_keys (i, paid c).
Proof.
  intros i c amount others E. unfold all_keys, keys, paid. cbn [snd]. rewrite E. cbn [length charges].
  rewrite !Nat.min_id. cbn [seq map]. f_equal.
  - f_equal; [cbn; lia|f_equal; lia].
  - rewrite <- seq_shift, map_map. apply map_ext. intros p. cbn [counter begin]. f_equal; [|f_equal; lia].
    rewrite before_cons. lia.
Qed.

Lemma all_keys_none : forall i c, charges c = [] -> all_keys (i, c) = [].
Proof. intros i c E. unfold all_keys, keys. cbn [snd]. rewrite E. reflexivity. Qed.

Lemma before_nonneg : forall l n, (forall x, In x l -> 0 <= x) -> 0 <= before l n.
Proof.
  intros. apply total_nonneg. intros x X. apply H. rewrite <- (firstn_skipn n l). apply in_or_app. auto.
Qed.

Lemma key_above_counter : forall k j a most i c, cheap c -> In (k, (j, a)) (keys most (i, c)) ->
  j = i /\ counter c <= k /\ (begin c <= a)%nat.
Proof.
  intros k j a most i c Ch I. unfold keys in I. apply in_map_iff in I. destruct I as (p & E & _). inversion E; subst.
  pose proof (before_nonneg (charges c) p Ch). split; auto. lia.
Qed.

(* Who has the least counter, and who would come next. *)
Lemma least_is : forall clients first, match least first clients with
  | None => forall j c, In (j, c) (from first clients) -> charges c = []
  | Some (i, c) => In (i, c) (from first clients) /\ charges c <> [] /\ (first <= i)%nat
      /\ forall j d, In (j, d) (from first clients) -> charges d <> [] ->
         counter c < counter d \/ (counter c = counter d /\ (i <= j)%nat)
  end.
Proof.
  induction clients as [|c clients IH]; intros first; cbn [least]; [intros ? ? []|].
  specialize (IH (S first)). rewrite from_cons.
  assert (Above : forall j d, In (j, d) (from (S first) clients) -> (S first <= j)%nat).
  { intros j d I. apply in_combine_l in I. apply in_seq in I. lia. }
  destruct (charges c) as [|amount others] eqn:E.
  - destruct (least (S first) clients) as [[i b]|].
    + destruct IH as (I & N & L & M). split; [right; auto|]. split; auto. split; [lia|].
      intros j d [J|J] Nd; [inversion J; subst; congruence|auto].
    + intros j d [J|J]; [inversion J; subst; auto|eauto].
  - destruct (least (S first) clients) as [[i b]|].
    + destruct IH as (I & N & L & M). destruct (Z.ltb_spec (counter b) (counter c)).
      * split; [right; auto|]. split; auto. split; [lia|].
        intros j d [J|J] Nd; [inversion J; subst; lia|auto].
      * split; [left; auto|]. split; [congruence|]. split; [lia|].
        intros j d [J|J] Nd; [inversion J; subst; lia|]. specialize (M j d J Nd). specialize (Above j d J). lia.
    + split; [left; auto|]. split; [congruence|]. split; [lia|].
      intros j d [J|J] Nd; [inversion J; subst; lia|]. exfalso. apply Nd. eapply IH. eauto.
Qed.

Lemma keys_after_a_pick : forall clients first i c, In (i, c) (from first clients) -> charges c <> [] ->
  Permutation (flat_map all_keys (from first clients))
              ((counter c, (i, begin c)) :: flat_map all_keys (from first (pay (i - first) clients))).
Proof.
  induction clients as [|d clients IH]; intros first i c I N; [destruct I|].
  rewrite from_cons in I. destruct I as [I|I].
  - inversion I; subst. rewrite Nat.sub_diag. cbn [pay]. rewrite !from_cons. cbn [flat_map].
    destruct (charges c) as [|amount others] eqn:E; [congruence|]. rewrite (all_keys_pay _ _ _ _ E).
    rewrite <- app_comm_cons. apply Permutation_refl.
  - assert (S first <= i)%nat by (apply in_combine_l in I; apply in_seq in I; lia).
    replace (i - first)%nat with (S (i - S first)) by lia. cbn [pay]. rewrite !from_cons. cbn [flat_map].
    specialize (IH (S first) i c I N). eapply perm_trans; [apply Permutation_app_head, IH|].
    apply Permutation_sym, Permutation_middle.
Qed.

Lemma pay_is_cheap : forall clients i, (forall c, In c clients -> cheap c) -> forall c, In c (pay i clients) -> cheap c.
Proof.
  induction clients as [|d clients IH]; intros i A c I; [destruct i; cbn in I; tauto|].
  destruct i as [|i]; cbn [pay] in I; destruct I as [<-|I].
  - unfold paid. pose proof (A d (or_introl eq_refl)) as Ch. destruct (charges d) as [|x others] eqn:E; auto.
    intros amount Q. apply Ch. rewrite E. right. auto.
  - apply A. right. auto.
  - apply A. left. auto.
  - eapply IH; [|exact I]. intros; apply A; right; auto.
Qed.

Lemma keys_sound : forall clients first, (forall c, In c clients -> cheap c) ->
  forall k j a, In (k, (j, a)) (flat_map all_keys (from first clients)) ->
  exists d, In (j, d) (from first clients) /\ charges d <> [] /\ counter d <= k /\ (begin d <= a)%nat.
Proof.
  intros clients first A k j a I. apply in_flat_map in I. destruct I as ([i d] & D & K).
  assert (Ch : cheap d) by (apply A; eapply in_combine_r; exact D).
  destruct (key_above_counter _ _ _ _ _ _ Ch K) as (-> & L & B). exists d. split; auto. split; auto.
  intros E. rewrite all_keys_none in K by auto. destruct K.
Qed.

Lemma picks_are_sorted_keys : forall count clients, (forall c, In c clients -> cheap c) ->
  picks count clients = firstn count (sorted (flat_map all_keys (from 0 clients))).
Proof.
  induction count as [|n IH]; intros clients A; [reflexivity|]. cbn [picks].
  pose proof (least_is clients 0) as L. destruct (least 0 clients) as [[i c]|].
  - destruct L as (I & N & _ & M).
    pose proof (keys_after_a_pick clients 0 i c I N) as P. rewrite Nat.sub_0_r in P.
    rewrite (sorted_same _ _ P), first_is_least.
    + cbn [firstn]. rewrite <- IH; auto. apply pay_is_cheap. auto.
    + intros [k [j a]] Q. apply precedes_is. unfold comes_before.
      destruct (keys_sound (pay i clients) 0 (pay_is_cheap _ i A) k j a Q) as (d & D & Nd & Ld & Bd).
      assert (T : exists e, In (j, e) (from 0 clients) /\ charges e <> [] /\ counter e <= counter d
                  /\ (begin e <= begin d)%nat /\ (j = i -> counter c <= counter d /\ (begin c < begin d)%nat)).
      { clear -D Nd A I N.
        assert (G : forall clients first, (forall c, In c clients -> cheap c) -> In (i, c) (from first clients) ->
          In (j, d) (from first (pay (i - first) clients)) ->
          exists e, In (j, e) (from first clients) /\ charges e <> [] /\ counter e <= counter d
                    /\ (begin e <= begin d)%nat /\ (j = i -> counter c <= counter d /\ (begin c < begin d)%nat)).
        { clear clients A I D. induction clients as [|x clients IH]; intros first A I D; [destruct I|].
          rewrite from_cons in *. destruct I as [I|I].
          - inversion I; subst. rewrite Nat.sub_diag in D. cbn [pay] in D. rewrite from_cons in D.
            destruct D as [D|D].
            + inversion D; subst. exists c. pose proof (A c (or_introl eq_refl)) as Ch. unfold paid in *.
              destruct (charges c) as [|amount others] eqn:E; [congruence|]. cbn [counter begin].
              assert (0 <= amount) by (apply Ch; rewrite E; left; auto).
              split; [left; auto|]. split; [discriminate|]. lia.
            + exists d. split; [right; auto|]. split; auto. split; [lia|]. split; [lia|].
              intros ->. apply in_combine_l in D. apply in_seq in D. lia.
          - assert (S first <= i)%nat by (apply in_combine_l in I; apply in_seq in I; lia).
            replace (i - first)%nat with (S (i - S first)) in D by lia. cbn [pay] in D. rewrite from_cons in D.
            destruct D as [D|D].
            + inversion D; subst. exists d. split; [left; auto|]. split; auto. split; [lia|]. split; [lia|]. intros; lia.
            + destruct (IH (S first) ltac:(intros; apply A; right; auto) I D) as (e & Q & R).
              exists e. split; [right; auto|]. exact R. }
        specialize (G clients 0%nat A I). rewrite Nat.sub_0_r in G. exact (G D). }
      destruct T as (e & E & Ne & Le & Be & Own).
      destruct (M j e E Ne) as [|[Eq Le']]; [left; lia|].
      destruct (Nat.eq_dec j i) as [->|Ni]; [|lia]. specialize (Own eq_refl). lia.
  - replace (flat_map all_keys (from 0 clients)) with (@nil pick); [reflexivity|].
    symmetry. clear A IH. revert L. generalize 0%nat. induction clients as [|c clients IH]; intros first L; [reflexivity|].
    rewrite from_cons in *. cbn [flat_map]. rewrite all_keys_none by (eapply L; left; reflexivity).
    apply IH. intros j d I. eapply L. right. exact I.
Qed.
