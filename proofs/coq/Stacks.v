(* Lemmas: block ids on a stack, where each comes to lie, and the calendar of block edges. *)

From Coq Require Import List ZArith Lia Bool Arith.
From Schedspec Require Import Loops Scans Prefixes Misfits.
Import ListNotations.
Open Scope Z_scope.

(* --- pops are a slice --------------------------------------------------------------------------------------------------- *)

Lemma pops_are_a_slice : forall count stack, (count <= length stack)%nat -> pops count stack = slice count stack.
Proof.
  unfold slice. induction count as [|n IH]; intros stack L.
  { rewrite Nat.sub_0_r, skipn_all, firstn_all. reflexivity. }
  destruct (exists_last (l := stack)) as (under & top & ->); [intros ->; cbn in L; lia|].
  rewrite app_length in *. cbn [length] in *. cbn [pops pop]. unfold pop. rewrite removelast_last, last_last.
  rewrite IH by lia.
  replace (length under + 1 - S n)%nat with (length under - n)%nat by lia.
  rewrite skipn_app, firstn_app. replace (length under - n - length under)%nat with O by lia.
  cbn [skipn firstn]. rewrite app_nil_r, rev_app_distr. reflexivity.
Qed.

Lemma pops_app : forall m n stack, pops (m + n) stack =
  let '(taken, under) := pops m stack in let '(more, under) := pops n under in (taken ++ more, under).
Proof.
  induction m as [|m IH]; intros n stack; cbn [Nat.add pops].
  - destruct (pops n stack). reflexivity.
  - destruct (pop stack) as [b under]. rewrite IH. destruct (pops m under) as [t u]. destruct (pops n u). reflexivity.
Qed.

Lemma pops_length : forall n stack, length (fst (pops n stack)) = n.
Proof.
  induction n as [|n IH]; intros stack; cbn [pops]; auto. destruct (pop stack) as [b under].
  specialize (IH under). destruct (pops n under). cbn in *. lia.
Qed.

Lemma growing_is_a_slice : forall counts stack, (sum counts <= length stack)%nat ->
  grow counts stack = grow_scan counts stack.
Proof.
  intros counts stack L. unfold grow_scan. rewrite <- pops_are_a_slice by auto. clear L. revert stack.
  induction counts as [|n counts IH]; intros stack; [reflexivity|].
  cbn [grow sum fold_right parts]. change (fold_right Nat.add 0%nat counts) with (sum counts).
  rewrite pops_app. pose proof (pops_length n stack) as L. destruct (pops n stack) as [t u]. cbn in L.
  rewrite IH. destruct (pops (sum counts) u) as [m v]. rewrite <- L, firstn_app, skipn_app, Nat.sub_diag.
  rewrite firstn_all, skipn_all. cbn. rewrite app_nil_r. reflexivity.
Qed.

Lemma emptied : forall table stack, empty (length table) table stack = stack ++ rev table.
Proof.
  intros table. induction table as [|last table IH] using rev_ind; intros stack; [cbn; rewrite app_nil_r; reflexivity|].
  rewrite app_length, Nat.add_comm. cbn [length Nat.add empty]. rewrite removelast_last, last_last, IH, rev_app_distr.
  rewrite <- app_assoc. reflexivity.
Qed.

Lemma releasing_is_an_append : forall leaving stack, release leaving stack = release_scan leaving stack.
Proof.
  unfold release_scan. induction leaving as [|table leaving IH]; intros stack; cbn [release map concat].
  - rewrite app_nil_r. reflexivity.
  - rewrite IH, emptied, app_assoc. reflexivity.
Qed.

(* --- a binary search for the owner ---------------------------------------------------------------------------------------- *)

Lemma half : forall n, (2 * Nat.div2 n <= n <= 2 * Nat.div2 n + 1)%nat.
Proof. intros. pose proof (Nat.div2_odd n). destruct (Nat.odd n); cbn in *; lia. Qed.

Lemma search_finds : forall ends number fuel low high width,
  (width < fuel)%nat -> (low <= high)%nat -> (high - low <= width)%nat ->
  (forall i j, (i <= j < high)%nat -> (ends i <= ends j)%nat) ->
  (forall i, (i < low)%nat -> (ends i <= number)%nat) ->
  let found := search fuel ends number low high width in
  (low <= found <= high)%nat /\ (forall i, (i < found)%nat -> (ends i <= number)%nat)
  /\ ((found < high)%nat -> (number < ends found)%nat).
Proof.
  induction fuel as [|fuel IH]; intros low high width F L W M B; [lia|].
  cbn [search]. destruct width as [|width].
  { cbn zeta. assert (low = high) as -> by lia. split; [lia|]. split; [exact B|lia]. }
  pose proof (half (S width)) as Hw. pose proof (half (low + high)) as Hm.
  set (w := Nat.div2 (S width)) in *. set (middle := Nat.div2 (low + high)) in *.
  destruct (Nat.ltb_spec low high) as [O|O]; cbn [andb].
  - destruct (Nat.leb_spec (ends middle) number) as [G|G].
    + replace (Nat.ltb number (ends middle)) with false by (symmetry; apply Nat.ltb_ge; lia).
      assert (B' : forall i, (i < S middle)%nat -> (ends i <= number)%nat).
      { intros i I. specialize (M i middle ltac:(lia)). lia. }
      destruct (IH (S middle) high w ltac:(lia) ltac:(lia) ltac:(lia) M B') as (X & Y & Z).
      cbn zeta in *. repeat split; auto; lia.
    + replace (Nat.ltb number (ends middle)) with true by (symmetry; apply Nat.ltb_lt; lia).
      destruct (IH low middle w ltac:(lia) ltac:(lia) ltac:(lia) ltac:(intros; apply M; lia) B) as (X & Y & Z).
      cbn zeta in *. split; [lia|]. split; [auto|]. intros K.
      destruct (Nat.eq_dec (search fuel ends number low middle w) middle) as [->|N]; [lia|]. apply Z. lia.
  - assert (low = high) as -> by lia. destruct (IH high high w ltac:(lia) ltac:(lia) ltac:(lia) M B) as (X & Y & Z).
    cbn zeta in *. repeat split; auto; lia.
Qed.

Lemma sum_app : forall a b, sum (a ++ b) = (sum a + sum b)%nat.
Proof. induction a as [|n a IH]; intros b; cbn; auto. fold (sum (a ++ b)) (sum a). rewrite IH. lia. Qed.

Lemma ends_grow : forall counts i j, (i <= j)%nat -> (ends counts i <= ends counts j)%nat.
Proof.
  intros counts i j L. unfold ends. replace (firstn (S i) counts) with (firstn (S i) (firstn (S j) counts))
    by (rewrite firstn_firstn; f_equal; lia).
  rewrite <- (firstn_skipn (S i) (firstn (S j) counts)) at 2. rewrite sum_app. lia.
Qed.

Lemma ends_last : forall counts i, (length counts <= S i)%nat -> ends counts i = sum counts.
Proof. intros. unfold ends. rewrite firstn_all2 by auto. reflexivity. Qed.

(* The owner of a number, and what is before it. *)
Lemma owner_is : forall counts number, (number < sum counts)%nat ->
  let owner := owner_of counts number in
  (owner < length counts)%nat /\ (sum (firstn owner counts) <= number < ends counts owner)%nat
  /\ ends counts owner = (sum (firstn owner counts) + nth owner counts 0)%nat.
Proof.
  intros counts number N. unfold owner_of.
  destruct (search_finds (ends counts) number (S (length counts)) 0 (length counts) (length counts)
    ltac:(lia) ltac:(lia) ltac:(lia) ltac:(intros; apply ends_grow; lia) ltac:(intros; lia)) as (A & B & C).
  cbn zeta in *. set (owner := search _ _ _ _ _ _) in *.
  assert (O : (owner < length counts)%nat).
  { destruct (Nat.eq_dec owner (length counts)) as [E|]; [|lia]. exfalso.
    destruct counts as [|n counts]; [cbn in N; lia|]. specialize (B (length counts) ltac:(rewrite E; cbn [length]; lia)).
    rewrite ends_last in B by (cbn [length]; lia). lia. }
  clearbody owner.
  split; auto. split.
  - split; [|auto]. destruct owner as [|o]; [cbn; lia|]. apply (B o). lia.
  - unfold ends. clear -O. revert counts O. induction owner as [|o IH]; intros [|n counts] O; cbn [length] in O; try lia.
    + cbn. lia.
    + cbn [firstn nth sum fold_right]. specialize (IH counts ltac:(lia)). cbn [firstn] in IH. unfold sum in *. lia.
Qed.

Lemma nth_of_parts : forall counts taken i place, length taken = sum counts ->
  (place < nth i counts 0)%nat ->
  nth place (nth i (parts taken counts) []) 0 = nth (sum (firstn i counts) + place) taken 0.
Proof.
  induction counts as [|n counts IH]; intros taken i place L P.
  { destruct i; cbn in P; lia. }
  cbn [parts]. cbn [sum fold_right] in L. fold (sum counts) in L. destruct i as [|i]; cbn [nth firstn sum fold_right].
  - cbn [nth] in P. cbn [Nat.add]. rewrite <- (firstn_skipn n taken) at 2. rewrite app_nth1; auto.
    rewrite firstn_length. lia.
  - fold (sum (firstn i counts)). cbn [nth] in P. rewrite IH; auto.
    + rewrite <- (firstn_skipn n taken) at 2. rewrite app_nth2 by (rewrite firstn_length; lia).
      f_equal. rewrite firstn_length. lia.
    + rewrite skipn_length. lia.
Qed.

Lemma nth_of_skipn : forall m (l : list Z) n, nth n (skipn m l) 0 = nth (m + n) l 0.
Proof. induction m as [|m IH]; intros [|x l] n; cbn; auto; destruct n; reflexivity. Qed.

Lemma nth_of_rev : forall (l : list Z) n, (n < length l)%nat -> nth n (rev l) 0 = nth (length l - 1 - n) l 0.
Proof. intros. rewrite rev_nth by auto. f_equal. lia. Qed.

(* The block of a number comes to lie where the search says. *)
Lemma each_popped_block_has_its_place : forall counts stack number,
  (sum counts <= length stack)%nat -> (number < sum counts)%nat ->
  let '(owner, place) := popped_to counts number in
  (owner < length counts)%nat /\ (place < nth owner counts 0)%nat
  /\ nth place (nth owner (fst (grow counts stack)) []) 0 = nth (length stack - 1 - number) stack 0.
Proof.
  intros counts stack number L N. unfold popped_to. destruct (owner_is counts number N) as (A & B & C).
  cbn zeta in *. set (owner := owner_of counts number) in *.
  split; auto. split; [lia|].
  rewrite growing_is_a_slice by auto. unfold grow_scan, slice. cbn [fst].
  rewrite nth_of_parts; [|rewrite rev_length, skipn_length; lia|lia].
  replace (sum (firstn owner counts) + (number - (ends counts owner - nth owner counts 0)))%nat with number by lia.
  rewrite nth_of_rev by (rewrite skipn_length; lia). rewrite skipn_length.
  rewrite nth_of_skipn. f_equal. lia.
Qed.

Lemma nth_of_reversed_tables : forall (tables : list (list Z)) i place, (place < length (nth i tables []))%nat ->
  nth (sum (firstn i (map (@length Z) tables)) + place) (concat (map (@rev Z) tables)) 0
  = nth (length (nth i tables []) - 1 - place) (nth i tables []) 0.
Proof.
  induction tables as [|t tables IH]; intros i place P; [destruct i; cbn in P; lia|].
  destruct i as [|i]; cbn [nth map firstn sum fold_right concat] in *.
  - cbn [Nat.add]. rewrite app_nth1 by (rewrite rev_length; lia). apply nth_of_rev. auto.
  - fold (sum (firstn i (map (@length Z) tables))). rewrite app_nth2 by (rewrite rev_length; lia).
    rewrite rev_length. rewrite <- IH by auto. f_equal. lia.
Qed.

Lemma each_pushed_block_has_its_place : forall leaving stack number,
  let counts := map (@length Z) leaving in
  (number < sum counts)%nat ->
  let '(owner, place) := pushed_from counts number in
  (owner < length leaving)%nat /\ (place < length (nth owner leaving []))%nat
  /\ nth (length stack + number) (release leaving stack) 0 = nth place (nth owner leaving []) 0.
Proof.
  intros leaving stack number counts N. unfold pushed_from. destruct (owner_is counts number N) as (A & B & C).
  cbn zeta in *. set (owner := owner_of counts number) in *.
  assert (E : nth owner counts 0%nat = length (nth owner leaving [])).
  { unfold counts. change 0%nat with (length (@nil Z)). rewrite map_nth. reflexivity. }
  unfold counts at 1 in A. rewrite map_length in A. split; auto. split; [lia|].
  rewrite releasing_is_an_append. unfold release_scan. rewrite app_nth2 by lia.
  replace (length stack + number - length stack)%nat
    with (sum (firstn owner counts) + (number - sum (firstn owner counts)))%nat by lia.
  unfold counts at 1. rewrite nth_of_reversed_tables by lia. f_equal. lia.
Qed.
