(* Lemmas: prefix sums, and the token budget. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Loops Scans.
Import ListNotations.
Open Scope Z_scope.

(* --- lists ------------------------------------------------------------------------------------------------------------ *)

Lemma total_app : forall l m, total (l ++ m) = total l + total m.
Proof. induction l as [|x l IH]; intros m; cbn [app total]; [lia|]. rewrite IH. lia. Qed.

Lemma total_nonneg : forall l, (forall x, In x l -> 0 <= x) -> 0 <= total l.
Proof.
  induction l as [|x l IH]; cbn [total]; intros A; [lia|].
  pose proof (A x (or_introl eq_refl)). assert (0 <= total l) by (apply IH; intros; apply A; right; auto). lia.
Qed.

Lemma places_cons : forall A (x : A) l, places (x :: l) = O :: map S (places l).
Proof. intros. unfold places. cbn [length seq]. rewrite seq_shift. reflexivity. Qed.

Lemma each_cons : forall A B (f : nat -> A -> B) x l, each f (x :: l) = f O x :: each (fun i => f (S i)) l.
Proof.
  intros. unfold each. rewrite places_cons. cbn [combine map]. f_equal.
  generalize (places l). induction l as [|y l IH]; intros [|i p]; cbn; auto. f_equal. apply IH.
Qed.

Lemma each_ext : forall A B (f g : nat -> A -> B) l, (forall i x, f i x = g i x) -> each f l = each g l.
Proof. intros. unfold each. apply map_ext. intros [i x]. apply H. Qed.

Lemma each_length : forall A B (f : nat -> A -> B) l, length (each f l) = length l.
Proof. intros. unfold each, places. rewrite map_length, combine_length, seq_length. lia. Qed.

Lemma both_cons : forall A B C (f : A -> B -> C) x l y m, both f (x :: l) (y :: m) = f x y :: both f l m.
Proof. reflexivity. Qed.

Lemma both_app : forall A B C (f : A -> B -> C) l m l' m', length l = length m ->
  both f (l ++ l') (m ++ m') = both f l m ++ both f l' m'.
Proof.
  induction l as [|x l IH]; intros [|y m] l' m' H; try discriminate; auto.
  cbn [app]. rewrite !both_cons. cbn [app]. f_equal. apply IH. inversion H. auto.
Qed.

Lemma before_cons : forall x l i, before (x :: l) (S i) = x + before l i.
Proof. reflexivity. Qed.

Lemma upto_first : forall x l, upto (x :: l) 0 = x.
Proof. intros. unfold upto. cbn. lia. Qed.

Lemma first_misfit_cons : forall b l, first_misfit (b :: l) = if b then O else S (first_misfit l).
Proof.
  intros. unfold first_misfit. rewrite places_cons. cbn [length combine filter].
  assert (E : forall p, map fst (filter snd (combine (map S p) l)) = map S (map fst (filter snd (combine p l)))).
  { revert l; induction l as [|c l IH]; intros [|i p]; cbn; auto. destruct c; cbn; [f_equal|]; apply IH. }
  destruct b; cbn [map fst fold_right snd]; [reflexivity|].
  rewrite E. generalize (map fst (filter snd (combine (places l) l))). intros p.
  induction p as [|i p IH]; cbn [map fold_right]; [reflexivity|]. rewrite IH. reflexivity.
Qed.

Lemma first_misfit_nil : first_misfit [] = O.
Proof. reflexivity. Qed.

Lemma first_misfit_length : forall l, (first_misfit l <= length l)%nat.
Proof.
  induction l as [|b l IH]; [rewrite first_misfit_nil; cbn; lia|].
  rewrite first_misfit_cons. destruct b; cbn [length]; lia.
Qed.

Lemma concat_tiles : forall A tile fuel (l : list A), (0 < tile)%nat -> (length l <= fuel)%nat ->
  concat (tiles fuel tile l) = l.
Proof.
  induction fuel as [|fuel IH]; intros [|x l] T F; cbn [tiles concat length] in *; auto; [lia|].
  rewrite IH; auto.
  - apply firstn_skipn.
  - rewrite skipn_length. cbn [length]. lia.
Qed.

Lemma blocks_of_is : forall n size, 0 < size -> 0 <= n -> blocks_of n size = blocks_for n size.
Proof.
  intros n size S N. unfold blocks_of, blocks_for. destruct (Z.ltb_spec 0 n).
  - symmetry. apply Z.opp_inj. rewrite Z.opp_involutive. symmetry.
    apply Z.div_unique with (r := size - 1 - (n - 1) mod size).
    + left. pose proof (Z.mod_pos_bound (n - 1) size S). lia.
    + pose proof (Z.div_mod (n - 1) size ltac:(lia)). nia.
  - replace n with 0 by lia. reflexivity.
Qed.

Lemma blocks_for_nonneg : forall n size, 0 < size -> 0 <= n -> 0 <= blocks_for n size.
Proof.
  intros. rewrite <- blocks_of_is by auto. unfold blocks_of. destruct (Z.ltb_spec 0 n); [|lia].
  pose proof (Z.div_pos (n - 1) size ltac:(lia) H). lia.
Qed.

(* --- the token budget ------------------------------------------------------------------------------------------------- *)

Lemma compose_app : forall chunk size a budget b, compose chunk size budget (a ++ b) =
  let '(tokens, needs, over) := compose chunk size budget a in
  let '(more, others, over) := compose chunk size over b in (tokens ++ more, needs ++ others, over).
Proof.
  induction a as [|r a IH]; intros budget b; cbn [app compose].
  - destruct (compose chunk size budget b) as [[t n] o]. reflexivity.
  - rewrite IH. destruct (compose chunk size (budget - Z.min (Z.max (wish chunk r) 0) budget) a) as [[t n] o].
    destruct (compose chunk size o b) as [[t' n'] o']. reflexivity.
Qed.

Lemma compose_lengths : forall chunk size running budget,
  length (tokens_of (compose chunk size budget running)) = length running
  /\ length (needs_of (compose chunk size budget running)) = length running.
Proof.
  unfold tokens_of, needs_of. induction running as [|r running IH]; intros budget; cbn [compose]; auto.
  specialize (IH (budget - Z.min (Z.max (wish chunk r) 0) budget)). destruct (compose _ _ _ running) as [[t n] o].
  cbn [fst snd length] in *. lia.
Qed.

Lemma clamped_cons : forall budget given w wishes, clamped budget given (w :: wishes) =
  Z.min w (Z.max (budget - given) 0) :: clamped budget (given + w) wishes.
Proof.
  intros. unfold clamped. rewrite each_cons. f_equal.
  - cbn. f_equal. f_equal. lia.
  - apply each_ext. intros i x. rewrite before_cons. f_equal. f_equal. lia.
Qed.

Lemma clamped_length : forall budget given wishes, length (clamped budget given wishes) = length wishes.
Proof. intros. apply each_length. Qed.

(* `wished`: what each wants, no less than nothing, and clamped at the budget or not. *)
Lemma compose_is_clamped : forall chunk size budget wished running given,
  0 <= budget -> 0 <= given ->
  (forall r, In r running -> wished r = Z.max (wish chunk r) 0 \/ wished r = Z.min (Z.max (wish chunk r) 0) budget) ->
  compose chunk size (Z.max (budget - given) 0) running =
    (clamped budget given (map wished running),
     both (new_blocks size) (clamped budget given (map wished running)) running,
     Z.max (budget - (given + total (map wished running))) 0).
Proof.
  induction running as [|r running IH]; intros given B G W; cbn [map compose total].
  { unfold clamped, each, both; cbn. f_equal. lia. }
  rewrite clamped_cons, both_cons. specialize (W r (or_introl eq_refl)) as Wr.
  replace (Z.min (Z.max (wish chunk r) 0) (Z.max (budget - given) 0))
    with (Z.min (wished r) (Z.max (budget - given) 0)) by lia.
  replace (Z.max (budget - given) 0 - Z.min (wished r) (Z.max (budget - given) 0))
    with (Z.max (budget - (given + wished r)) 0) by lia.
  rewrite IH; try lia; [|intros; apply W; right; auto].
  f_equal. f_equal. lia.
Qed.

Lemma over_is : forall chunk size running budget,
  snd (compose chunk size budget running) = budget - total (tokens_of (compose chunk size budget running)).
Proof.
  unfold tokens_of. induction running as [|r running IH]; intros budget; cbn [compose]; [cbn; lia|].
  specialize (IH (budget - Z.min (Z.max (wish chunk r) 0) budget)). destruct (compose _ _ _ running) as [[t n] o].
  cbn [fst snd total] in *. lia.
Qed.

Lemma enough_for_all : forall chunk size running budget, (forall r, In r running -> 0 <= wish chunk r) ->
  total (map (wish chunk) running) <= budget ->
  compose chunk size budget running =
    (map (wish chunk) running, both (new_blocks size) (map (wish chunk) running) running,
     budget - total (map (wish chunk) running)).
Proof.
  induction running as [|r running IH]; intros budget W T; cbn [map compose total] in *; [cbn; f_equal; lia|].
  pose proof (W r (or_introl eq_refl)).
  assert (0 <= total (map (wish chunk) running)).
  { apply total_nonneg. intros x X. apply in_map_iff in X. destruct X as (q & <- & Q). apply W. right. auto. }
  replace (Z.min (Z.max (wish chunk r) 0) budget) with (wish chunk r) by lia.
  rewrite IH; [|intros; apply W; right; auto|lia]. rewrite both_cons. f_equal. lia.
Qed.

Lemma compose_by_columns : forall chunk size budget running,
  0 <= budget -> (forall r, In r running -> 0 <= wish chunk r) ->
  compose_scan chunk size budget running = compose chunk size budget running.
Proof.
  intros chunk size budget running B W. unfold compose_scan.
  destruct (Z.ltb_spec budget (total (map (wish chunk) running))) as [L|L].
  - pose proof (compose_is_clamped chunk size budget (wish chunk) running 0 B ltac:(lia)) as C.
    replace (Z.max (budget - 0) 0) with budget in C by lia.
    pose proof (over_is chunk size running budget) as O.
    rewrite C in O |- * by (intros r R; left; specialize (W r R); lia).
    unfold tokens_of in O. cbn [fst snd] in O. rewrite O. reflexivity.
  - rewrite enough_for_all by auto. reflexivity.
Qed.

Lemma compose_by_tiles : forall chunk size budget cut given, 0 <= budget -> 0 <= given <= budget ->
  compose_tiles chunk size budget given cut = compose chunk size (budget - given) (concat cut).
Proof.
  induction cut as [|running cut IH]; intros given B G; cbn [compose_tiles concat]; [reflexivity|].
  set (wished := fun r => Z.min (Z.max (wish chunk r) 0) budget).
  assert (0 <= total (map wished running)).
  { apply total_nonneg. intros x X. apply in_map_iff in X. destruct X as (q & <- & _). unfold wished. lia. }
  rewrite IH by lia. rewrite compose_app.
  pose proof (compose_is_clamped chunk size budget wished running given B ltac:(lia)) as C.
  replace (Z.max (budget - given) 0) with (budget - given) in C by lia.
  rewrite C by (intros; right; reflexivity).
  replace (budget - Z.min (given + total (map wished running)) budget)
    with (Z.max (budget - (given + total (map wished running))) 0) by lia.
  destruct (compose chunk size _ (concat cut)) as [[t n] o]. reflexivity.
Qed.
