(* Lemmas: where the first misfit of prefix sums ends a loop: victims, admissions. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Loops Scans Prefixes.
Import ListNotations.
Open Scope Z_scope.

(* --- victims ---------------------------------------------------------------------------------------------------------- *)

Lemma needs_of_first : forall chunk size budget running n, (n <= length running)%nat ->
  needs_of (compose chunk size budget (firstn n running)) = firstn n (needs_of (compose chunk size budget running)).
Proof.
  intros. rewrite <- (firstn_skipn n running) at 2. rewrite compose_app.
  pose proof (compose_lengths chunk size (firstn n running) budget) as [_ L]. unfold needs_of in *.
  destruct (compose chunk size budget (firstn n running)) as [[t m] o]. cbn [fst snd] in *.
  destruct (compose chunk size o (skipn n running)) as [[t' m'] o']. cbn [fst snd].
  rewrite firstn_length in L. rewrite firstn_app, firstn_all2 by lia.
  replace (n - length m)%nat with O by lia. cbn. rewrite app_nil_r. reflexivity.
Qed.

Lemma new_blocks_nonneg : forall size tokens r, 0 < size -> 0 <= new_blocks size tokens r.
Proof.
  intros. unfold new_blocks. destruct (Z.ltb_spec 0 (issued r + tokens - held r * size)); rewrite ?andb_false_r; [|lia].
  destruct (0 <? tokens); cbn; [|lia]. apply blocks_for_nonneg; lia.
Qed.

Lemma needs_nonneg : forall chunk size running budget n, 0 < size ->
  In n (needs_of (compose chunk size budget running)) -> 0 <= n.
Proof.
  unfold needs_of. induction running as [|r running IH]; intros budget n S; cbn [compose]; [intros []|].
  specialize (IH (budget - Z.min (Z.max (wish chunk r) 0) budget) n S).
  destruct (compose _ _ _ running) as [[t m] o]. cbn [fst snd] in *. intros [<-|I]; auto.
  apply new_blocks_nonneg. auto.
Qed.

Lemma all_held_app : forall a b, all_held (a ++ b) = all_held a + all_held b.
Proof. induction a as [|r a IH]; intros b; cbn [app all_held]; [lia|]. rewrite IH. lia. Qed.

Lemma all_held_rev : forall a, all_held (rev a) = all_held a.
Proof. induction a as [|r a IH]; cbn [rev]; auto. rewrite all_held_app, IH. cbn [all_held]. lia. Qed.

Lemma sums_of_first : forall running needs n, length needs = length running ->
  total (firstn n (needs_and_held running needs)) = total (firstn n needs) + all_held (firstn n running).
Proof.
  induction running as [|r running IH]; intros [|m needs] n L; try discriminate.
  - rewrite !firstn_nil. reflexivity.
  - unfold needs_and_held. rewrite both_cons. destruct n as [|n]; cbn [firstn total all_held]; [lia|].
    unfold needs_and_held in IH. rewrite (IH needs n) by (inversion L; auto). lia.
Qed.

(* The longest prefix of sums that fits: which one that is, and that none behind it does. *)
Lemma longest_prefix : forall sums bound given, (forall x, In x sums -> 0 <= x) -> given <= bound ->
  let stay := first_misfit (map (fun i => bound <? given + upto sums i) (places sums)) in
  (stay <= length sums)%nat /\ given + total (firstn stay sums) <= bound
  /\ forall n, (stay < n <= length sums)%nat -> bound < given + total (firstn n sums).
Proof.
  induction sums as [|x sums IH]; intros bound given P G.
  { cbn. split; [lia|]. split; [lia|]. intros; lia. }
  rewrite places_cons. cbn [map]. rewrite first_misfit_cons. rewrite upto_first.
  pose proof (P x (or_introl eq_refl)).
  destruct (Z.ltb_spec bound (given + x)) as [L|L].
  { cbn zeta. cbn [firstn total length]. split; [lia|]. split; [lia|]. intros [|n] N; [lia|]. cbn [firstn total].
    assert (0 <= total (firstn n sums)).
    { apply total_nonneg. intros y Y. apply P. right. rewrite <- (firstn_skipn n sums). apply in_or_app. auto. }
    lia. }
  rewrite map_map.
  assert (E : map (fun i => bound <? given + upto (x :: sums) (S i)) (places sums)
              = map (fun i => bound <? (given + x) + upto sums i) (places sums)).
  { apply map_ext. intros i. f_equal. unfold upto. cbn [firstn total]. lia. }
  rewrite E. destruct (IH bound (given + x)) as (A & B & C); [intros; apply P; right; auto|lia|].
  cbn zeta. cbn [length firstn total]. split; [lia|]. split; [lia|].
  intros [|n] N; [lia|]. cbn [firstn total]. specialize (C n). lia.
Qed.

(* Sums never fall, so that whoever fits stands before whoever does not: counting is searching. *)
Lemma counting_is_searching : forall sums bound given, (forall x, In x sums -> 0 <= x) ->
  length (filter negb (map (fun i => bound <? given + upto sums i) (places sums)))
  = first_misfit (map (fun i => bound <? given + upto sums i) (places sums)).
Proof.
  induction sums as [|x sums IH]; intros bound given P; [reflexivity|].
  rewrite places_cons. cbn [map]. rewrite first_misfit_cons, map_map.
  assert (E : map (fun i => bound <? given + upto (x :: sums) (S i)) (places sums)
              = map (fun i => bound <? (given + x) + upto sums i) (places sums)).
  { apply map_ext. intros i. f_equal. unfold upto. cbn [firstn total]. lia. }
  cbn [filter]. rewrite E. rewrite upto_first.
  pose proof (P x (or_introl eq_refl)).
  destruct (Z.ltb_spec bound (given + x)) as [L|L]; cbn [negb].
  - replace (filter negb _) with (@nil bool); [reflexivity|]. symmetry.
    assert (N : forall p, filter negb (map (fun i => bound <? given + x + upto sums i) p) = []).
    { induction p as [|i p IHp]; cbn [map filter]; auto.
      assert (0 <= upto sums i).
      { apply total_nonneg. intros y Y. apply P. right. rewrite <- (firstn_skipn (S i) sums). apply in_or_app. auto. }
      replace (bound <? given + x + upto sums i) with true by (symmetry; apply Z.ltb_lt; lia). cbn [negb]. auto. }
    apply N.
  - cbn [length]. f_equal. apply IH. intros; apply P; right; auto.
Qed.

Lemma needs_and_held_nonneg : forall running needs x,
  (forall r, In r running -> 0 <= held r) -> (forall n, In n needs -> 0 <= n) ->
  In x (needs_and_held running needs) -> 0 <= x.
Proof.
  intros running needs x H N I. unfold needs_and_held, both in I. apply in_map_iff in I.
  destruct I as ([r n] & <- & P).
  specialize (H r (in_combine_l _ _ _ _ P)). specialize (N n (in_combine_r _ _ _ _ P)). lia.
Qed.

Lemma needs_and_held_length : forall running needs, length needs = length running ->
  length (needs_and_held running needs) = length running.
Proof. intros. unfold needs_and_held, both. rewrite map_length, combine_length. lia. Qed.

(* The loop goes down to the longest prefix that fits. *)
Lemma preempt_stops : forall chunk size budget free reversed victims stay,
  (stay <= length reversed)%nat ->
  (forall n, (n <= length reversed)%nat ->
    (total (needs_of (compose chunk size budget (firstn n (rev reversed))))
     <= free + all_held (victims ++ firstn (length reversed - n) reversed) <-> (n <= stay)%nat)) ->
  preempt chunk size budget free reversed victims =
    (firstn stay (rev reversed), victims ++ firstn (length reversed - stay) reversed).
Proof.
  induction reversed as [|last others IH]; intros victims stay L F.
  - cbn in L. replace stay with O by lia. cbn [preempt rev]. specialize (F O ltac:(cbn; lia)). cbn in F.
    cbn. rewrite app_nil_r in *. destruct (_ <=? _) eqn:E; reflexivity.
  - cbn [preempt]. destruct (Z.leb_spec (total (needs_of (compose chunk size budget (rev (last :: others)))))
                                        (free + all_held victims)) as [E|E].
    + assert (A : (length (last :: others) <= stay)%nat).
      { apply F; [lia|]. rewrite firstn_all2 by (rewrite rev_length; lia).
        rewrite Nat.sub_diag. cbn [firstn]. rewrite app_nil_r. exact E. }
      replace stay with (length (last :: others)) by lia.
      rewrite firstn_all2 by (rewrite rev_length; lia). rewrite Nat.sub_diag. cbn [firstn]. rewrite app_nil_r. reflexivity.
    + assert (A : (stay <= length others)%nat).
      { destruct (le_lt_dec (length (last :: others)) stay) as [G|G]; [|cbn in G; lia]. exfalso.
        apply (F (length (last :: others)) ltac:(lia)) in G.
        rewrite firstn_all2 in G by (rewrite rev_length; lia). rewrite Nat.sub_diag in G.
        cbn [firstn] in G. rewrite app_nil_r in G. lia. }
      assert (P : forall n, (n <= length others)%nat -> firstn n (rev (last :: others)) = firstn n (rev others)).
      { intros n N. cbn [rev]. rewrite firstn_app, rev_length. replace (n - length others)%nat with O by lia.
        cbn. apply app_nil_r. }
      assert (Q : forall n, (n <= length others)%nat ->
        victims ++ firstn (length (last :: others) - n) (last :: others)
        = (victims ++ [last]) ++ firstn (length others - n) others).
      { intros n N. cbn [length]. replace (S (length others) - n)%nat with (S (length others - n)) by lia.
        cbn [firstn]. rewrite <- app_assoc. reflexivity. }
      rewrite (IH (victims ++ [last]) stay A); [rewrite P, Q by auto; reflexivity|].
      intros n N. rewrite <- Q, <- P by auto. apply F. cbn [length]. lia.
Qed.

Lemma newest_first_is_the_longest_prefix : forall chunk size budget free running,
  0 < size -> 0 <= budget -> 0 <= free ->
  (forall r, In r running -> 0 <= wish chunk r) -> (forall r, In r running -> 0 <= held r) ->
  preempt chunk size budget free (rev running) [] = preempt_scan chunk size budget free running.
Proof.
  intros chunk size budget free running Sz B Fr W H. unfold preempt_scan.
  rewrite compose_by_columns by auto.
  set (needs := needs_of (compose chunk size budget running)).
  assert (L : length needs = length running) by apply compose_lengths.
  set (sums := needs_and_held running needs).
  assert (Ls : length sums = length running) by (apply needs_and_held_length; auto).
  assert (P : forall x, In x sums -> 0 <= x).
  { intros x. apply needs_and_held_nonneg; auto. intros n. apply needs_nonneg. auto. }
  assert (H0 : 0 <= all_held running).
  { clear -H. induction running as [|r running IH]; cbn [all_held]; [lia|].
    pose proof (H r (or_introl eq_refl)). assert (0 <= all_held running) by (apply IH; intros; apply H; right; auto). lia. }
  unfold kept, too_much. fold sums.
  rewrite (counting_is_searching sums (free + all_held running) 0 P).
  destruct (longest_prefix sums (free + all_held running) 0 P ltac:(lia)) as (A & Good & Bad).
  set (stay := first_misfit _) in *.
  rewrite (preempt_stops chunk size budget free (rev running) [] stay).
  - rewrite rev_involutive. f_equal. cbn [app]. rewrite rev_length, firstn_rev.
    f_equal. f_equal. lia.
  - rewrite rev_length. lia.
  - intros n N. rewrite rev_length in N. rewrite rev_involutive, rev_length. cbn [app].
    rewrite firstn_rev, all_held_rev.
    replace (length running - (length running - n))%nat with n by lia.
    rewrite needs_of_first by auto. fold needs.
    pose proof (sums_of_first running needs n L) as T. fold sums in T.
    assert (Sp : all_held running = all_held (firstn n running) + all_held (skipn n running))
      by (rewrite <- all_held_app, firstn_skipn; auto).
    split; intros Q.
    + destruct (le_lt_dec n stay) as [|G]; auto. specialize (Bad n ltac:(lia)). lia.
    + assert (M : total (firstn n sums) <= total (firstn stay sums)).
      { rewrite <- (firstn_skipn n (firstn stay sums)), firstn_firstn, Nat.min_l, total_app by lia.
        assert (0 <= total (skipn n (firstn stay sums))); [|lia].
        apply total_nonneg. intros x X. apply P. rewrite <- (firstn_skipn stay sums). apply in_or_app. left.
        rewrite <- (firstn_skipn n (firstn stay sums)). apply in_or_app. auto. }
      lia.
Qed.

(* By tiles, with a carried sum: up to the first misfit. *)
Lemma too_much_app : forall free all a b given,
  too_much free all given (a ++ b) = too_much free all given a ++ too_much free all (given + total a) b.
Proof.
  intros free all a. unfold too_much. induction a as [|x a IH]; intros b given.
  { cbn. rewrite Z.add_0_r. reflexivity. }
  cbn [app]. rewrite !places_cons. cbn [map]. rewrite !upto_first. cbn [app]. f_equal. rewrite !map_map.
  assert (E : forall l, map (fun i => free + all <? given + upto (x :: l) (S i)) (places l)
                        = map (fun i => free + all <? (given + x) + upto l i) (places l)).
  { intros l. apply map_ext. intros i. f_equal. unfold upto. cbn [firstn total]. lia. }
  rewrite !E, IH. cbn [total]. replace (given + (x + total a)) with (given + x + total a) by lia. reflexivity.
Qed.

Lemma first_misfit_app : forall a b,
  first_misfit (a ++ b) = if (first_misfit a <? length a)%nat then first_misfit a else (length a + first_misfit b)%nat.
Proof.
  induction a as [|c a IH]; intros b; [reflexivity|].
  cbn [app]. rewrite !first_misfit_cons. destruct c; [reflexivity|]. rewrite IH. cbn [length].
  destruct (Nat.ltb_spec (first_misfit a) (length a)), (Nat.ltb_spec (S (first_misfit a)) (S (length a))); lia.
Qed.

Lemma too_much_length : forall free all given sums, length (too_much free all given sums) = length sums.
Proof. intros. unfold too_much, places. rewrite map_length, seq_length. reflexivity. Qed.

Lemma stay_by_tiles : forall free all cut given,
  stay_tiles free all given cut = first_misfit (too_much free all given (concat cut)).
Proof.
  induction cut as [|sums cut IH]; intros given; cbn [stay_tiles concat]; [reflexivity|].
  rewrite too_much_app, first_misfit_app, IH, too_much_length.
  pose proof (first_misfit_length (too_much free all given sums)) as F. rewrite too_much_length in F.
  destruct (Nat.ltb_spec (first_misfit (too_much free all given sums)) (length sums)); auto. f_equal. lia.
Qed.

(* --- admissions ------------------------------------------------------------------------------------------------------- *)

Definition asks_for (R : room) (running budget blocks tokens_given blocks_given place : Z) (c : candidate) : Z * Z * Z :=
  let budget_here := budget - tokens_given in
  let blocks_here := blocks - blocks_given in
  let tokens := Z.min (Z.min (chunk c) budget) (Z.max budget_here 0) in
  let charge := Z.min (blocks_of (Z.max tokens (reserved c)) (block_size R)) (Z.max blocks 0 + 1) in
  let kept := if 0 <? place + running then watermark R else 0 in
  (tokens, charge,
   if seats R <=? place + running then 1
   else if (budget_here <=? 0) || (negb (chunked R) && (tokens <? chunk c)) then 2
   else if (blocks_here <=? 0) || (blocks_here - kept <? Z.max charge (blocks_of (tested c) (block_size R))) then 3 else 0).

Lemma combine_map_seq : forall A B (f g : nat -> B) (l : list A),
  (forall i, f i = g i) -> map f (places l) = map g (places l).
Proof. intros. apply map_ext. auto. Qed.

Lemma look_cons : forall R running budget blocks tg bg place c tile,
  look R running budget blocks tg bg place (c :: tile) =
    asks_for R running budget blocks tg bg place c
    :: look R running budget blocks (tg + Z.min (chunk c) budget)
         (bg + snd (fst (asks_for R running budget blocks tg bg place c))) (place + 1) tile.
Proof.
  intros. unfold look. cbn zeta. cbn [map].
  rewrite !places_cons. cbn [map]. rewrite !map_map. rewrite !both_cons. cbn [combine].
  rewrite each_cons.
  assert (E : forall d (l : list Z) (x : Z), map (fun i => d - before (x :: l) (S i)) (places tile)
                          = map (fun i => d - x - before l i) (places tile)).
  { intros. apply map_ext. intros i. rewrite before_cons. lia. }
  rewrite !E.
  replace (budget - tg - before (Z.min (chunk c) budget :: map (fun c0 => Z.min (chunk c0) budget) tile) 0)
    with (budget - tg) by (cbn; lia).
  f_equal.
  - unfold asks_for. cbn [before firstn total]. rewrite Z.add_0_r, !Z.sub_0_r. reflexivity.
  - unfold asks_for. cbn [fst snd].
    replace (budget - tg - Z.min (chunk c) budget) with (budget - (tg + Z.min (chunk c) budget)) by lia.
    set (charge := Z.min (blocks_of _ _) _).
    replace (blocks - bg - charge) with (blocks - (bg + charge)) by lia.
    apply each_ext. intros i (c' & t & ch & th & bh).
    replace (place + 1 + Z.of_nat i + running) with (place + Z.of_nat (S i) + running) by lia. reflexivity.
Qed.

Definition sound_room (R : room) : Prop := 0 < block_size R /\ 0 <= watermark R.
Definition sound_candidate (c : candidate) : Prop := 0 <= chunk c /\ 0 <= tested c /\ 0 <= reserved c.

Ltac decide_all :=
  repeat match goal with
         | |- context [Z.leb ?a ?b] => destruct (Z.leb_spec a b); try lia
         | |- context [Z.ltb ?a ?b] => destruct (Z.ltb_spec a b); try lia
         | |- context [Z.eqb ?a ?b] => destruct (Z.eqb_spec a b); try lia
         end.

(* The loop and the scan judge the first of a tile alike; `left` is what the loop has left of the budget. *)
Lemma first_is_judged_alike : forall R running budget blocks tg bg place left c rest,
  sound_room R -> sound_candidate c -> 0 <= running -> 0 <= place -> 0 <= tg -> 0 <= bg ->
  left = Z.max (budget - tg) 0 ->
  let '(tokens, charge, why) := asks_for R running budget blocks tg bg place c in
  0 <= why /\
  enter R (running + place) left (blocks - bg) (c :: rest) =
    (if 0 <? why then ([], why, left, blocks - bg)
     else let '(entered, why, budget_left, blocks_left) := enter R (running + place + 1) (left - tokens) (blocks - bg - charge) rest in
          ((tokens, charge) :: entered, why, budget_left, blocks_left))
  /\ (why = 0 -> 0 <= tokens /\ 0 <= charge /\ tokens = Z.min (chunk c) left /\ 0 < budget - tg).
Proof.
  intros R running budget blocks tg bg place left c rest [S W] (C & T & Re) Ru Pl Tg Bg L.
  unfold asks_for. cbn zeta. cbn [enter]. cbn zeta.
  replace (place + running) with (running + place) by lia.
  destruct (Z.leb_spec (seats R) (running + place)) as [Seat|Seat].
  { split; [lia|]. split; [reflexivity|intros; discriminate]. }
  destruct (Z.leb_spec (budget - tg) 0) as [B|B]; cbn [orb].
  { replace (left <=? 0) with true by (symmetry; apply Z.leb_le; lia). cbn [orb].
    split; [lia|]. split; [reflexivity|intros; discriminate]. }
  replace (left <=? 0) with false by (symmetry; apply Z.leb_gt; lia). cbn [orb].
  replace (Z.min (Z.min (chunk c) budget) (Z.max (budget - tg) 0)) with (Z.min (chunk c) left) by lia.
  set (tokens := Z.min (chunk c) left).
  destruct (negb (chunked R) && (tokens <? chunk c)).
  { split; [lia|]. split; [reflexivity|intros; discriminate]. }
  rewrite !blocks_of_is by lia.
  pose proof (blocks_for_nonneg (Z.max tokens (reserved c)) (block_size R) S ltac:(lia)) as Q.
  pose proof (blocks_for_nonneg (tested c) (block_size R) S T) as Q'.
  set (charge := blocks_for (Z.max tokens (reserved c)) (block_size R)) in *.
  set (test := blocks_for (tested c) (block_size R)) in *.
  assert (K : (if running + place =? 0 then 0 else watermark R) = (if 0 <? running + place then watermark R else 0)).
  { destruct (Z.eqb_spec (running + place) 0), (Z.ltb_spec 0 (running + place)); try lia; reflexivity. }
  rewrite K. set (kept := if 0 <? running + place then watermark R else 0).
  assert (0 <= kept) by (unfold kept; destruct (0 <? running + place); lia).
  destruct (Z.leb_spec (blocks - bg) 0); cbn [orb].
  { split; [lia|]. split; [reflexivity|intros; discriminate]. }
  destruct (Z.ltb_spec (blocks - bg - kept) (Z.max charge test)) as [F|F].
  - replace (blocks - bg - kept <? Z.max (Z.min charge (Z.max blocks 0 + 1)) test) with true
      by (symmetry; apply Z.ltb_lt; lia).
    split; [lia|]. split; [reflexivity|intros; discriminate].
  - replace (Z.min charge (Z.max blocks 0 + 1)) with charge by lia.
    replace (blocks - bg - kept <? Z.max charge test) with false by (symmetry; apply Z.ltb_ge; lia).
    split; [lia|]. split; [reflexivity|]. intros _. repeat split; lia.
Qed.

Lemma misfits_cons : forall one looked, misfits (one :: looked) = (0 <? snd one) :: misfits looked.
Proof. intros [[t c] w] looked. reflexivity. Qed.

Lemma enter_a_tile : forall R running budget blocks tile rest tg bg place left,
  sound_room R -> (forall c, In c tile -> sound_candidate c) -> 0 <= running -> 0 <= place -> 0 <= budget -> 0 <= tg ->
  0 <= bg -> left = Z.max (budget - tg) 0 ->
  let looked := look R running budget blocks tg bg place tile in
  let entered := first_misfit (misfits looked) in
  let entering := map fst (firstn entered looked) in
  let budget_left := left - total (map fst entering) in
  let blocks_left := blocks - bg - total (map snd entering) in
  enter R (running + place) left (blocks - bg) (tile ++ rest) =
    if (entered <? length tile)%nat then (entering, snd (nth entered looked (0, 0, 0)), budget_left, blocks_left)
    else let '(more, why, budget_left, blocks_left) :=
           enter R (running + place + Z.of_nat (length tile)) budget_left blocks_left rest in
         (entering ++ more, why, budget_left, blocks_left).
Proof.
  intros R running budget blocks. induction tile as [|c tile IH]; intros rest tg bg place left SR SC Ru Pl B Tg Bg L.
  { cbn zeta. unfold look at 1 2 3 4 5 6. cbn. rewrite !Z.sub_0_r, Z.add_0_r.
    destruct (enter R (running + place) left (blocks - bg) rest) as [[[e w] b] k]. reflexivity. }
  cbn zeta. rewrite look_cons. set (next := look R running budget blocks (tg + _) _ _ tile).
  rewrite misfits_cons, first_misfit_cons.
  pose proof (first_is_judged_alike R running budget blocks tg bg place left c (tile ++ rest) SR
                (SC c (or_introl eq_refl)) Ru Pl Tg Bg L) as J.
  destruct (asks_for R running budget blocks tg bg place c) as [[tokens charge] why] eqn:A.
  cbn [snd fst] in *. destruct J as (Y & J & K). rewrite <- app_comm_cons, J. destruct (Z.ltb_spec 0 why) as [M|M].
  { cbn. rewrite !Z.sub_0_r. reflexivity. }
  specialize (K ltac:(lia)). destruct K as (Pt & Pc & Et & Pb).
  assert (Cc : 0 <= chunk c) by apply (SC c (or_introl eq_refl)).
  specialize (IH rest (tg + Z.min (chunk c) budget) (bg + charge) (place + 1) (left - tokens) SR
    ltac:(intros; apply SC; right; auto) Ru ltac:(lia) B ltac:(lia) ltac:(lia) ltac:(lia)).
  cbn zeta in IH. fold next in IH.
  replace (running + place + 1) with (running + (place + 1)) by lia.
  replace (blocks - bg - charge) with (blocks - (bg + charge)) by lia.
  rewrite IH. cbn [firstn map total fst snd length nth].
  set (e := first_misfit (misfits next)).
  replace (left - (tokens + total (map fst (map fst (firstn e next)))))
    with (left - tokens - total (map fst (map fst (firstn e next)))) by lia.
  replace (blocks - bg - (charge + total (map snd (map fst (firstn e next)))))
    with (blocks - (bg + charge) - total (map snd (map fst (firstn e next)))) by lia.
  replace (running + place + Z.of_nat (S (length tile))) with (running + (place + 1) + Z.of_nat (length tile)) by lia.
  destruct (Nat.ltb_spec e (length tile)), (Nat.ltb_spec (S e) (S (length tile))); try lia; [reflexivity|].
  destruct (enter R _ _ _ rest) as [[[m w] b] k]. reflexivity.
Qed.

(* Who enters from a tile takes no more than is there. *)
Lemma entering_takes : forall R running budget blocks queue, sound_room R -> (forall c, In c queue -> sound_candidate c) ->
  0 <= budget -> let '(entered, _, budget_left, blocks_left) := enter R running budget blocks queue in
  0 <= budget_left /\ budget_left = budget - total (map fst entered) /\ blocks_left = blocks - total (map snd entered)
  /\ 0 <= total (map snd entered) /\ 0 <= total (map fst entered).
Proof.
  intros R running budget blocks queue SR. revert running budget blocks.
  induction queue as [|c queue IH]; intros running budget blocks SC B; cbn [enter]; [cbn; lia|]. cbn zeta.
  destruct (seats R <=? running); [cbn; lia|].
  destruct ((budget <=? 0) || _); [cbn; lia|]. destruct ((blocks <=? 0) || _); [cbn; lia|].
  destruct (SC c (or_introl eq_refl)) as (C & _ & Re). destruct SR as [S W].
  pose proof (blocks_for_nonneg (Z.max (Z.min (chunk c) budget) (reserved c)) (block_size R) S ltac:(lia)).
  specialize (IH (running + 1) (budget - Z.min (chunk c) budget)
    (blocks - blocks_for (Z.max (Z.min (chunk c) budget) (reserved c)) (block_size R))
    ltac:(intros; apply SC; right; auto) ltac:(lia)).
  destruct (enter R (running + 1) _ _ queue) as [[[e w] b] k]. cbn [map fst snd total]. lia.
Qed.

Lemma enter_by_tiles : forall R running budget blocks cut tg bg place,
  sound_room R -> (forall c, In c (concat cut) -> sound_candidate c) -> 0 <= running -> 0 <= place ->
  0 <= tg <= budget -> 0 <= bg ->
  enter_tiles R running budget blocks tg bg place cut = enter R (running + place) (budget - tg) (blocks - bg) (concat cut).
Proof.
  intros R running budget blocks. induction cut as [|tile cut IH]; intros tg bg place SR SC Ru Pl Tg Bg; [reflexivity|].
  cbn [enter_tiles concat]. cbn zeta.
  pose proof (enter_a_tile R running budget blocks tile (concat cut) tg bg place (budget - tg) SR
    ltac:(intros; apply SC; cbn [concat]; apply in_or_app; auto) Ru Pl ltac:(lia) ltac:(lia) Bg ltac:(lia)) as E.
  pose proof (enter_a_tile R running budget blocks tile [] tg bg place (budget - tg) SR
    ltac:(intros; apply SC; cbn [concat]; apply in_or_app; auto) Ru Pl ltac:(lia) ltac:(lia) Bg ltac:(lia)) as E0.
  pose proof (entering_takes R (running + place) (budget - tg) (blocks - bg) (tile ++ []) SR
    ltac:(intros c I; rewrite app_nil_r in I; apply SC; cbn [concat]; apply in_or_app; auto) ltac:(lia)) as T.
  cbn zeta in E, E0. rewrite E. rewrite E0 in T. clear E E0.
  set (looked := look R running budget blocks tg bg place tile) in *.
  set (e := first_misfit (misfits looked)) in *.
  destruct (Nat.ltb_spec e (length tile)).
  - f_equal; [f_equal|]; lia.
  - cbn [enter] in T. rewrite app_nil_r in T. cbn iota beta in T.
    rewrite IH; auto; try lia.
    + replace (running + (place + Z.of_nat (length tile))) with (running + place + Z.of_nat (length tile)) by lia.
      replace (budget - (tg + total (map fst (map fst (firstn e looked)))))
        with (budget - tg - total (map fst (map fst (firstn e looked)))) by lia.
      replace (blocks - (bg + total (map snd (map fst (firstn e looked)))))
        with (blocks - bg - total (map snd (map fst (firstn e looked)))) by lia.
      destruct (enter R _ _ _ (concat cut)) as [[[m w] b] k]. reflexivity.
    + intros; apply SC; cbn [concat]; apply in_or_app; auto.
Qed.
