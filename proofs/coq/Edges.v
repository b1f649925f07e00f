(* Lemmas: while all decode, clocks stand for positions, and blocks are needed at edges only. *)

From Coq Require Import List ZArith Lia Bool Arith.
From Schedspec Require Import Loops Scans Prefixes.
Import ListNotations.
Open Scope Z_scope.

Lemma filter_places : forall (P : Z -> bool) l,
  map fst (filter (fun '(_, x) => P x) (combine (places l) l)) = filter (fun i => P (nth i l 0)) (places l).
Proof.
  intros P. assert (G : forall l k, map fst (filter (fun '(_, x) => P x) (combine (seq k (length l)) l))
                          = filter (fun i => P (nth (i - k) l 0)) (seq k (length l))).
  { induction l as [|x l IH]; intros k; [reflexivity|]. cbn [length seq combine filter].
    rewrite Nat.sub_diag. cbn [nth].
    assert (E : filter (fun i => P (nth (i - k) (x :: l) 0)) (seq (S k) (length l))
                = filter (fun i => P (nth (i - S k) l 0)) (seq (S k) (length l))).
    { apply filter_ext_in. intros i I. apply in_seq in I.
      replace (i - k)%nat with (S (i - S k)) by lia. reflexivity. }
    specialize (IH (S k)). rewrite <- E in IH. destruct (P x); cbn [map fst]; rewrite IH; reflexivity. }
  intros l. unfold places. rewrite G. apply filter_ext. intros i. rewrite Nat.sub_0_r. reflexivity.
Qed.

Lemma is_positive : forall l i, 0 < nth i l 0 -> In i (where_positive l).
Proof.
  intros l i P. unfold where_positive. rewrite (filter_places (fun n => 0 <? n)). apply filter_In. split.
  - apply in_seq. destruct (le_lt_dec (length l) i) as [G|G]; [rewrite nth_overflow in P by auto|]; lia.
  - apply Z.ltb_lt. exact P.
Qed.

Lemma filter_filter : forall A (P Q : A -> bool) l, filter Q (filter P l) = filter (fun x => P x && Q x) l.
Proof.
  induction l as [|x l IH]; cbn [filter]; auto. destruct (P x); cbn [filter andb]; rewrite IH; reflexivity.
Qed.

Lemma nth_both : forall A B (f : A -> B -> Z) l m i a b, length l = length m -> (i < length l)%nat ->
  nth i (both f l m) 0 = f (nth i l a) (nth i m b).
Proof.
  induction l as [|x l IH]; intros [|y m] i a b L I; cbn [length] in *; try lia.
  rewrite both_cons. destruct i as [|i]; cbn [nth]; auto. apply IH; lia.
Qed.

Lemma both_length : forall A B C (f : A -> B -> C) l m, length l = length m -> length (both f l m) = length l.
Proof. intros. unfold both. rewrite map_length, combine_length. lia. Qed.

Definition needed (size tick : Z) (start h : Z) : Z := if h * size <=? start + tick then 1 else 0.

Lemma at_edge_is : forall size tick starts holds, length starts = length holds ->
  at_edge size tick starts holds = where_positive (both (needed size tick) starts holds).
Proof.
  intros size tick starts holds L. unfold at_edge, edges, where_positive.
  rewrite (filter_places (fun n => 0 <? n)). unfold places. rewrite both_length by auto.
  apply filter_ext_in. intros i I. apply in_seq in I.
  rewrite !(nth_both _ _ _ starts holds i 0 0) by lia. unfold needed.
  destruct (Z.leb_spec (nth i holds 0 * size) (nth i starts 0 + tick)); [apply Z.leb_le|apply Z.leb_gt]; lia.
Qed.

Lemma in_at_edge : forall size tick starts holds i, length starts = length holds ->
  In i (at_edge size tick starts holds)
  <-> (i < length starts)%nat /\ nth i holds 0 * size <= nth i starts 0 + tick.
Proof.
  intros size tick starts holds i L. unfold at_edge, edges. rewrite filter_In. unfold places. rewrite in_seq. split.
  - intros [I E]. apply Z.leb_le in E. rewrite (nth_both _ _ _ starts holds i 0 0) in E by lia. lia.
  - intros [I E]. split; [lia|]. apply Z.leb_le. rewrite (nth_both _ _ _ starts holds i 0 0) by lia. lia.
Qed.

Lemma one_more_length : forall growing holds, length (one_more growing holds) = length holds.
Proof. intros. unfold one_more. apply each_length. Qed.

Lemma nth_one_more : forall growing holds i, (i < length holds)%nat ->
  nth i (one_more growing holds) 0 = nth i holds 0 + if existsb (Nat.eqb i) growing then 1 else 0.
Proof.
  intros growing holds i I. unfold one_more, each, places.
  set (F := fun '(i, h) => if existsb (Nat.eqb i) growing then h + 1 else h).
  rewrite (nth_indep (map F _) 0 (F (0%nat, 0))) by (rewrite map_length, combine_length, seq_length; lia).
  rewrite map_nth. rewrite combine_nth by apply seq_length. rewrite seq_nth by auto. cbn. destruct (existsb _ _); lia.
Qed.

Lemma one_more_is : forall needs holds, length needs = length holds -> (forall n, In n needs -> n = 0 \/ n = 1) ->
  one_more (where_positive needs) holds = both Z.add holds needs.
Proof.
  intros needs holds L A. apply nth_ext with (d := 0) (d' := 0).
  { rewrite one_more_length, both_length; auto. }
  rewrite one_more_length. intros i I.
  rewrite (nth_both _ _ _ holds needs i 0 0) by lia.
  assert (G : where_positive needs = filter (fun i => 0 <? nth i needs 0) (places needs))
    by apply (filter_places (fun n => 0 <? n)).
  rewrite nth_one_more, G by auto. clear G.
  assert (N : In (nth i needs 0) needs) by (apply nth_In; lia).
  destruct (existsb _ _) eqn:X.
  - apply existsb_exists in X. destruct X as (k & K & Q). apply Nat.eqb_eq in Q. subst k.
    apply filter_In in K. destruct K as [_ K]. apply Z.ltb_lt in K. destruct (A _ N); lia.
  - destruct (A _ N) as [Z0|Z1]; [lia|]. exfalso.
    assert (Y : existsb (Nat.eqb i) (filter (fun i => 0 <? nth i needs 0) (places needs)) = true).
    { apply existsb_exists. exists i. split; [|apply Nat.eqb_refl]. apply filter_In. split.
      - unfold places. apply in_seq. lia.
      - apply Z.ltb_lt. lia. }
    congruence.
Qed.

(* --- one step ------------------------------------------------------------------------------------------------------------- *)

Section Decodes.
Variables chunk size budget : Z.
Hypothesis size_positive : 0 < size.
Hypothesis chunk_allows : chunk = 0 \/ 1 <= chunk.

(* Who decodes for so many steps more: one position known and not issued, and a table that covers what was issued. *)
Definition decodes (steps : Z) (r : runner) : Prop :=
  left r = 1 /\ steps <= samples_left r /\ issued r <= held r * size.

Lemma wish_of_a_decode : forall r, left r = 1 -> 0 < samples_left r -> wish chunk r = 1.
Proof.
  intros r L S. unfold wish. replace (0 <? samples_left r) with true by (symmetry; apply Z.ltb_lt; lia).
  rewrite L. destruct (Z.eqb_spec chunk 0); lia.
Qed.

Lemma needs_of_a_decode : forall r, issued r <= held r * size ->
  new_blocks size 1 r = needed size 0 (issued r) (held r).
Proof.
  intros r C. unfold new_blocks, needed, blocks_for. rewrite Z.add_0_r. cbn [Z.ltb Z.compare andb].
  destruct (Z.leb_spec (held r * size) (issued r)).
  - replace (issued r + 1 - held r * size) with 1 by lia. cbn [Z.ltb Z.compare].
    symmetry. apply Z.opp_inj. rewrite Z.opp_involutive. apply Z.div_unique with (r := size - 1); lia.
  - replace (0 <? issued r + 1 - held r * size) with false by (symmetry; apply Z.ltb_ge; lia). reflexivity.
Qed.

Lemma a_step_of_decodes : forall running,
  Z.of_nat (length running) <= budget -> (forall r, In r running -> decodes 1 r) ->
  let needs := map (fun r => needed size 0 (issued r) (held r)) running in
  needs_of (compose chunk size budget running) = needs
  /\ all_decoded running (tokens_of (compose chunk size budget running)) needs
     = both (fun r n => Runner 1 (samples_left r - 1) (issued r + 1) (held r + n)) running needs.
Proof.
  intros running B D.
  assert (W : map (wish chunk) running = map (fun _ => 1) running).
  { apply map_ext_in. intros r R. destruct (D r R) as (L & S & _). apply wish_of_a_decode; lia. }
  assert (T : forall l : list runner, total (map (fun _ => 1) l) = Z.of_nat (length l)).
  { induction l as [|r l IH]; cbn [map total length]; lia. }
  rewrite enough_for_all.
  - rewrite W. unfold needs_of, tokens_of. cbn [fst snd]. clear W B.
    induction running as [|r running IH]; [split; reflexivity|].
    cbn [map]. rewrite !both_cons. cbn [all_decoded].
    destruct (IH ltac:(intros; apply D; right; auto)) as [E F]. cbn zeta in E, F.
    destruct (D r (or_introl eq_refl)) as (L & S & C).
    split; [f_equal; [apply needs_of_a_decode; auto|exact E]|].
    f_equal; [|exact F]. unfold decoded. rewrite L. cbn. f_equal; lia.
  - intros r R. destruct (D r R) as (L & S & _). rewrite wish_of_a_decode; lia.
  - rewrite W, T. exact B.
Qed.

Lemma clocks : forall running count tick holds,
  length holds = length running -> Z.of_nat (length running) <= budget -> 0 <= tick ->
  (forall r, In r running -> left r = 1 /\ tick + Z.of_nat count <= samples_left r) ->
  (forall r h, In (r, h) (combine running holds) -> issued r + tick <= h * size) ->
  let '(after, needs) := steps chunk size budget count (written tick running holds) in
  let '(final, grown) := ticks size tick count (map issued running) holds in
  after = written (tick + Z.of_nat count) running final /\ map where_positive needs = grown
  /\ Forall (Forall (fun n => n = 0 \/ n = 1)) needs.
Proof.
  intros running. induction count as [|count IH]; intros tick holds L B T D C; cbn [steps ticks].
  { split; [f_equal; lia|]. split; [reflexivity|constructor]. }
  assert (Lw : length (written tick running holds) = length running) by (apply both_length; auto).
  assert (Dw : forall r, In r (written tick running holds) -> decodes 1 r).
  { intros r R. unfold written, both in R. apply in_map_iff in R. destruct R as ([q h] & <- & I).
    pose proof (in_combine_l _ _ _ _ I) as Q. destruct (D q Q). specialize (C q h I).
    unfold decodes. cbn [left samples_left issued held]. lia. }
  destruct (a_step_of_decodes (written tick running holds) ltac:(lia) Dw) as [E F]. cbn zeta in E, F.
  rewrite E, F. clear E F Dw.
  set (needs := both (needed size tick) (map issued running) holds).
  assert (N : map (fun r => needed size 0 (issued r) (held r)) (written tick running holds) = needs).
  { unfold needs, written, both. rewrite map_map. clear -L. revert holds L.
    induction running as [|r running IH]; intros [|h holds] L; try discriminate; [reflexivity|].
    cbn [combine map issued held]. rewrite IH by (inversion L; auto). f_equal.
    unfold needed. rewrite Z.add_0_r. reflexivity. }
  rewrite N.
  assert (A : forall n, In n needs -> n = 0 \/ n = 1).
  { intros n I. unfold needs, both in I. apply in_map_iff in I. destruct I as ([s h] & <- & _).
    unfold needed. destruct (h * size <=? s + tick); auto. }
  assert (Ln : length needs = length holds) by (unfold needs; rewrite both_length; rewrite map_length; auto).
  assert (W : both (fun r n => Runner 1 (samples_left r - 1) (issued r + 1) (held r + n)) (written tick running holds) needs
              = written (tick + 1) running (both Z.add holds needs)).
  { clearbody needs. clear -L Ln D. revert holds needs L Ln.
    induction running as [|r running IH]; intros [|h holds] [|n needs] L Ln; try discriminate; [reflexivity|].
    unfold written in *. rewrite !both_cons. rewrite IH; try (inversion L; inversion Ln; auto); [|intros; apply D; right; auto].
    destruct (D r (or_introl eq_refl)) as [-> _]. cbn [samples_left issued held]. f_equal. f_equal; lia. }
  rewrite W.
  rewrite at_edge_is by (rewrite map_length; auto).
  fold needs. rewrite one_more_is by auto.
  specialize (IH (tick + 1) (both Z.add holds needs)).
  destruct (steps chunk size budget count (written (tick + 1) running (both Z.add holds needs))) as [after more].
  destruct (ticks size (tick + 1) count (map issued running) (both Z.add holds needs)) as [final grown].
  destruct IH as (X & Y & Z); auto; try lia.
  - rewrite both_length; auto.
  - intros r R. destruct (D r R). lia.
  - intros r h I. unfold needs in I. clear -I C L size_positive. revert holds L C I.
    induction running as [|q running IH]; intros [|g holds] L C I; try discriminate; [destruct I|].
    cbn [map] in I. rewrite !both_cons in I. cbn [combine] in I. destruct I as [I|I].
    + inversion I; subst. specialize (C r g (or_introl eq_refl)). unfold needed.
      destruct (Z.leb_spec (g * size) (issued r + tick)); nia.
    + apply (IH holds); auto. intros. apply C. right. auto.
  - split; [rewrite X; f_equal; lia|]. split; [cbn [map]; rewrite Y; reflexivity|].
    constructor; auto. apply Forall_forall. exact A.
Qed.
End Decodes.

(* Blocks only become more, so whoever is at an edge later has not more now than it has positions then. *)
Lemma edge_of_a_step : forall size count tick starts holds n i, 0 < size -> length starts = length holds ->
  In i (nth n (snd (ticks size tick count starts holds)) []) ->
  (i < length starts)%nat /\ nth i holds 0 * size <= nth i starts 0 + tick + Z.of_nat n.
Proof.
  intros size. induction count as [|count IH]; intros tick starts holds n i S L I; cbn [ticks] in I.
  { destruct n; destruct I. }
  specialize (IH (tick + 1) starts (one_more (at_edge size tick starts holds) holds)).
  destruct (ticks size (tick + 1) count starts _) as [after grown]. cbn [snd] in *. destruct n as [|n]; cbn [nth] in I.
  - apply in_at_edge in I; auto. lia.
  - destruct (IH n i S ltac:(rewrite one_more_length; auto) I) as [B E]. split; auto.
    rewrite nth_one_more in E by lia. destruct (existsb _ _); nia.
Qed.

Lemma edges_are_a_block_apart : forall size count tick starts holds i n m, 0 < size -> length starts = length holds ->
  (forall j, (j < length starts)%nat -> nth j starts 0 + tick <= nth j holds 0 * size) -> (n < m)%nat ->
  In i (nth n (snd (ticks size tick count starts holds)) []) ->
  In i (nth m (snd (ticks size tick count starts holds)) []) -> size <= Z.of_nat m - Z.of_nat n.
Proof.
  intros size. induction count as [|count IH]; intros tick starts holds i n m S L C O I J; cbn [ticks] in I, J.
  { destruct n; destruct I. }
  set (growing := at_edge size tick starts holds) in *. set (grows := one_more growing holds) in *.
  assert (G : length starts = length grows) by (unfold grows; rewrite one_more_length; auto).
  specialize (IH (tick + 1) starts grows i).
  pose proof (fun k => edge_of_a_step size count (tick + 1) starts grows k i S G) as later.
  destruct (ticks size (tick + 1) count starts grows) as [after grown]. cbn [snd] in *.
  destruct m as [|m]; [lia|]. cbn [nth] in J. destruct n as [|n]; cbn [nth] in I.
  - destruct (later m J) as [B E]. unfold grows in E. rewrite nth_one_more in E by lia.
    assert (X : existsb (Nat.eqb i) growing = true).
    { apply existsb_exists. exists i. split; [exact I|apply Nat.eqb_refl]. }
    rewrite X in E. specialize (C i B). nia.
  - enough (size <= Z.of_nat m - Z.of_nat n) by lia. apply IH; auto; [|lia].
    intros j B. unfold grows. rewrite nth_one_more by lia. specialize (C j B).
    destruct (existsb (Nat.eqb j) growing) eqn:X; [nia|].
    destruct (Z_le_gt_dec (nth j holds 0 * size) (nth j starts 0 + tick)) as [E|E]; [|lia]. exfalso.
    assert (Y : existsb (Nat.eqb j) growing = true).
    { apply existsb_exists. exists j. split; [apply in_at_edge; auto|apply Nat.eqb_refl]. }
    congruence.
Qed.
