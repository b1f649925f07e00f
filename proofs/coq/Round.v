(* Lemmas: a round of picks looks at the least s clients and s requests of each, and ends at the first misfit. *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
From Schedspec Require Import Loops Scans Prefixes Misfits Merge.
Import ListNotations.
Open Scope Z_scope.

Lemma numbered_is : forall clients, numbered clients = from 0 clients.
Proof. reflexivity. Qed.

Lemma keys_first : forall most i c, keys most (i, c) = firstn most (all_keys (i, c)).
Proof.
  intros. unfold all_keys, keys. cbn [snd]. rewrite Nat.min_id, firstn_map. f_equal.
  generalize (length (charges c)) as n. generalize 0%nat. induction most as [|m IH]; intros s [|n]; cbn; auto.
  f_equal. apply IH.
Qed.

(* What is left aside: requests behind the first so many, and clients that are not near. *)
Definition aside (count : nat) (nearest : list nat) (numbered : nat * client) : list pick :=
  if existsb (Nat.eqb (fst numbered)) nearest then skipn count (all_keys numbered) else all_keys numbered.

Definition near_by (nearest : list nat) (clients : list (nat * client)) : list (nat * client) :=
  filter (fun '(i, _) => existsb (Nat.eqb i) nearest) clients.

Lemma near_and_aside : forall count nearest clients,
  Permutation (flat_map all_keys clients)
              (flat_map (aside count nearest) clients ++ flat_map (keys count) (near_by nearest clients)).
Proof.
  induction clients as [|[i c] clients IH]; [apply Permutation_refl|].
  unfold near_by in *. cbn [flat_map filter]. unfold aside at 1. cbn [fst].
  destruct (existsb (Nat.eqb i) nearest); cbn [flat_map].
  - rewrite keys_first. set (a := all_keys (i, c)). rewrite <- (firstn_skipn count a) at 1.
    eapply perm_trans; [apply Permutation_app_head, IH|].
    set (x := firstn count a). set (y := skipn count a). set (u := flat_map (aside count nearest) clients).
    set (v := flat_map (keys count) _). rewrite <- !app_assoc.
    eapply perm_trans; [apply Permutation_app_comm|]. rewrite <- !app_assoc. apply Permutation_app_head.
    apply Permutation_app_head. apply Permutation_app_comm.
  - rewrite <- app_assoc. apply Permutation_app_head. exact IH.
Qed.

Lemma head_key : forall i c, charges c <> [] -> keys 1 (i, c) = [(counter c, (i, begin c))].
Proof.
  intros i c N. rewrite keys_first. destruct (charges c) as [|x others] eqn:E; [congruence|].
  rewrite (all_keys_pay _ _ _ _ E). reflexivity.
Qed.

Lemma heads_numbers : forall p clients first, In p (heads (from first clients)) ->
  exists c, In (fst (snd p), c) (from first clients) /\ charges c <> [] /\ p = (counter c, (fst (snd p), begin c)).
Proof.
  intros p clients first I. unfold heads in I. apply in_flat_map in I. destruct I as ([i c] & C & K).
  assert (N : charges c <> []).
  { intros E. rewrite keys_first, all_keys_none in K by auto. destruct K. }
  rewrite head_key in K by auto. destruct K as [<-|[]]. exists c. auto.
Qed.

Lemma heads_nodup : forall clients first, NoDup (heads (from first clients)).
Proof.
  induction clients as [|c clients IH]; intros first; [constructor|].
  rewrite from_cons. unfold heads in *. cbn [flat_map]. destruct (charges c) as [|x others] eqn:E.
  - rewrite keys_first, all_keys_none by auto. apply IH.
  - rewrite head_key by congruence. cbn [app]. constructor; [|apply IH].
    intros I. apply heads_numbers in I. destruct I as (d & D & _). cbn [snd fst] in D.
    apply in_combine_l in D. apply in_seq in D. lia.
Qed.

Lemma nodup_first : forall n (l : list pick), NoDup l -> NoDup (firstn n l).
Proof.
  intros n l N. rewrite <- (firstn_skipn n l) in N. revert N. generalize (skipn n l). generalize (firstn n l).
  induction l0 as [|p l0 IH]; intros m N; [constructor|]. inversion N; subst. constructor; eauto.
  intros I. apply H1. apply in_or_app. auto.
Qed.

Lemma not_among_first : forall n l p, in_order l -> In p l -> ~ In p (firstn n l) ->
  length (firstn n l) = n /\ forall q, In q (firstn n l) -> precedes q p = true.
Proof.
  induction n as [|n IH]; intros l p O I N; [split; [reflexivity|intros ? []]|].
  inversion O as [|x m A O']; subst; [destruct I|]. cbn [firstn In length] in *.
  destruct I as [->|I]; [tauto|]. destruct (IH m p O' I) as [L B]; [tauto|].
  split; [lia|]. intros q [<-|Q]; auto.
Qed.

Lemma counted : forall p some few, NoDup few -> incl few some ->
  (forall q, In q few -> precedes p q = false) -> (length few <= others_before p some)%nat.
Proof.
  intros p some few N I A. unfold others_before. apply NoDup_incl_length; auto.
  intros q Q. apply filter_In. split; [auto|]. rewrite (A q Q). reflexivity.
Qed.

Lemma all_keys_nodup : forall i c, NoDup (all_keys (i, c)).
Proof.
  intros i c. unfold all_keys, keys. apply FinFun.Injective_map_NoDup; [|apply seq_NoDup].
  intros p q E. inversion E. lia.
Qed.

Lemma all_keys_grow : forall i c n p q, cheap c -> In p (firstn n (all_keys (i, c))) -> In q (skipn n (all_keys (i, c))) ->
  comes_before p q /\ p <> q.
Proof.
  intros i c n p q Ch P Q.
  assert (D : NoDup (all_keys (i, c))) by apply all_keys_nodup.
  assert (Np : p <> q).
  { intros ->. rewrite <- (firstn_skipn n (all_keys (i, c))) in D.
    clear -D P Q. revert D P. generalize (firstn n (all_keys (i, c))) as l. induction l as [|x l IH]; intros D P; [destruct P|].
    inversion D; subst. destruct P as [->|P]; auto. apply H1. apply in_or_app. auto. }
  split; auto. unfold all_keys, keys in P, Q. cbn [snd] in *. rewrite Nat.min_id in *.
  rewrite firstn_map in P. rewrite skipn_map in Q. apply in_map_iff in P, Q.
  destruct P as (a & <- & A), Q as (b & <- & B).
  assert (La : (a < n)%nat /\ (a < length (charges c))%nat).
  { assert (G : forall m s k, In a (firstn k (seq s m)) -> (s <= a < s + k)%nat /\ (a < s + m)%nat).
    { clear. induction m as [|m IH]; intros s [|k] A; cbn in A; try tauto. destruct A as [->|A]; [lia|].
      specialize (IH (S s) k A). lia. }
    apply G in A. lia. }
  assert (Lb : (n <= b)%nat).
  { assert (G : forall m s k, In b (skipn k (seq s m)) -> (s + k <= b)%nat).
    { clear. induction m as [|m IH]; intros s [|k] B; cbn [skipn seq] in B; try (destruct B; fail).
      - cbn in B. destruct B as [->|B]; [lia|]. apply in_seq in B. lia.
      - specialize (IH (S s) k B). lia. }
    apply G in B. lia. }
  assert (M : before (charges c) a <= before (charges c) b).
  { unfold before. replace (firstn a (charges c)) with (firstn a (firstn b (charges c)))
      by (rewrite firstn_firstn; f_equal; lia).
    rewrite <- (firstn_skipn a (firstn b (charges c))) at 2. rewrite total_app.
    assert (0 <= total (skipn a (firstn b (charges c)))); [|lia].
    apply total_nonneg. intros x X. apply Ch. rewrite <- (firstn_skipn b (charges c)). apply in_or_app. left.
    rewrite <- (firstn_skipn a (firstn b (charges c))). apply in_or_app. auto. }
  unfold comes_before. lia.
Qed.

Lemma not_the_same_way : forall p q, comes_before p q -> p <> q -> precedes q p = false.
Proof.
  intros p q C N. destruct (precedes q p) eqn:E; auto. exfalso. apply N. apply precedes_both; auto. apply precedes_is. auto.
Qed.

(* In s picks nobody but the s least clients is picked, and of each at most s requests. *)
Lemma the_near_suffice : forall count clients, (forall c, In c clients -> cheap c) ->
  picks_scan count clients = firstn count (sorted (flat_map all_keys (from 0 clients))).
Proof.
  intros [|m] clients A; [reflexivity|]. set (count := S m). unfold picks_scan, near. rewrite numbered_is.
  set (few := firstn count (sorted (heads (from 0 clients)))).
  set (nearest := map (fun '(_, (i, _)) => i) few). fold (near_by nearest (from 0 clients)).
  rewrite (sorted_same _ _ (near_and_aside count nearest (from 0 clients))).
  symmetry. apply first_of_all_are_first_of_some. intros r R. apply in_flat_map in R. destruct R as ([i c] & C & K).
  assert (Ch : cheap c) by (apply A; eapply in_combine_r; exact C).
  unfold aside in K. cbn [fst] in K. destruct (existsb (Nat.eqb i) nearest) eqn:E.
  - assert (L : length (firstn count (all_keys (i, c))) = count).
    { destruct (le_lt_dec count (length (all_keys (i, c)))) as [G|G]; [apply firstn_length_le; auto|].
      rewrite skipn_all2 in K by lia. destruct K. }
    rewrite <- L at 1. apply counted.
    + apply nodup_first, all_keys_nodup.
    + rewrite <- keys_first. intros q Q. apply in_flat_map. exists (i, c). split; auto.
      unfold near_by. apply filter_In. auto.
    + intros q Q. destruct (all_keys_grow i c count q r Ch Q K) as [B N]. apply not_the_same_way; auto.
  - assert (N : charges c <> []) by (intros X; rewrite all_keys_none in K by auto; destruct K).
    set (h := (counter c, (i, begin c)) : pick).
    assert (H : In h (sorted (heads (from 0 clients)))).
    { apply (Permutation_in _ (sorted_perm _)). unfold heads. apply in_flat_map. exists (i, c). split; auto.
      rewrite head_key by auto. left. reflexivity. }
    assert (F : ~ In h few).
    { intros F. assert (X : existsb (Nat.eqb i) nearest = true); [|congruence].
      apply existsb_exists. exists i. split; [|apply Nat.eqb_refl]. unfold nearest. apply in_map_iff. exists h. auto. }
    destruct (not_among_first count _ h (sorted_in_order _) H F) as [L B]. fold few in L, B.
    rewrite <- L at 1. apply counted.
    + apply nodup_first. eapply Permutation_NoDup; [apply sorted_perm|apply heads_nodup].
    + intros q Q. assert (Q' : In q (heads (from 0 clients))).
      { apply (Permutation_in _ (Permutation_sym (sorted_perm _))).
        rewrite <- (firstn_skipn count). apply in_or_app. left. exact Q. }
      destruct (heads_numbers _ _ _ Q') as (d & D & Nd & Eq).
      apply in_flat_map. exists (fst (snd q), d). split.
      * unfold near_by. apply filter_In. split; auto. apply existsb_exists. exists (fst (snd q)).
        split; [|apply Nat.eqb_refl]. unfold nearest. apply in_map_iff. exists q. split; auto.
        destruct q as [k [j a]]. reflexivity.
      * rewrite keys_first. destruct (charges d) as [|x others] eqn:Ed; [congruence|].
        rewrite (all_keys_pay _ _ _ _ Ed). left. symmetry. exact Eq.
    + intros q Q. specialize (B q Q). apply precedes_is in B.
      assert (Nq : q <> h) by (intros ->; contradiction).
      destruct r as [k [j a]]. destruct (key_above_counter k j a _ i c Ch K) as (-> & Lk & La).
      apply not_the_same_way.
      * destruct q as [kq [jq aq]]. unfold comes_before, h in *. lia.
      * intros ->. unfold comes_before, h in *. apply Nq. unfold h.
        assert (k = counter c /\ a = begin c) as [-> ->] by lia. reflexivity.
Qed.

Lemma picks_are_a_sort : forall count clients, (forall c, In c clients -> cheap c) ->
  picks count clients = picks_scan count clients.
Proof. intros. rewrite picks_are_sorted_keys, the_near_suffice by auto. reflexivity. Qed.

(* --- the round ------------------------------------------------------------------------------------------------------------------ *)

Lemma enter_cons : forall R running budget blocks c rest,
  enter R running budget blocks (c :: rest) =
    match enter R running budget blocks [c] with
    | ([], why, b, k) => ([], why, b, k)
    | (one :: _, _, b, k) => let '(more, why, b, k) := enter R (running + 1) b k rest in (one :: more, why, b, k)
    end.
Proof.
  intros. cbn [enter]. cbn zeta. destruct (seats R <=? running); auto.
  destruct ((budget <=? 0) || _); auto. destruct ((blocks <=? 0) || _); auto.
Qed.

Lemma enter_one : forall R running budget blocks c, exists l why b k,
  enter R running budget blocks [c] = (l, why, b, k) /\ ((l = [] /\ b = budget /\ k = blocks) \/ exists one, l = [one]).
Proof.
  intros. cbn [enter]. cbn zeta.
  destruct (seats R <=? running); [do 4 eexists; split; [reflexivity|auto]|].
  destruct ((budget <=? 0) || _); [do 4 eexists; split; [reflexivity|auto]|].
  destruct ((blocks <=? 0) || _); do 4 eexists; (split; [reflexivity|eauto]).
Qed.

Lemma pays_next : forall n c, pays (S n) c = pays n (paid c).
Proof.
  intros n c. unfold pays, paid. destruct (charges c) as [|x others] eqn:E.
  - rewrite E. destruct n; reflexivity.
  - cbn [counter begin charges firstn skipn length]. rewrite before_cons. f_equal; lia.
Qed.

Lemma settled_nil : forall clients, settled [] clients = clients.
Proof.
  intros. unfold settled. cbn [filter length]. induction clients as [|c clients IH]; [reflexivity|].
  rewrite each_cons. unfold pays at 1. cbn [before firstn total skipn length]. rewrite Z.add_0_r, Nat.add_0_r.
  destruct c as [k b l]. cbn [counter begin charges]. f_equal. exact IH.
Qed.

Lemma settled_next : forall k i a picked clients, settled ((k, (i, a)) :: picked) clients = settled picked (pay i clients).
Proof.
  intros k i a picked. unfold settled. cbn [filter snd fst].
  set (n := fun j => length (filter (fun p : pick => Nat.eqb (fst (snd p)) j) picked)).
  assert (G : forall clients i n, each (fun j c => pays (length (if Nat.eqb i j then (k, (i, a)) :: filter (fun p : pick => Nat.eqb (fst (snd p)) (n + j)) picked
                                         else filter (fun p : pick => Nat.eqb (fst (snd p)) (n + j)) picked)) c) clients
              = each (fun j c => pays (length (filter (fun p : pick => Nat.eqb (fst (snd p)) (n + j)) picked)) c) (pay i clients)).
  { clear. induction clients as [|c clients IH]; intros i n; [destruct i; reflexivity|].
    destruct i as [|i]; cbn [pay]; rewrite !each_cons; cbn [Nat.eqb length].
    - f_equal. apply pays_next.
    - f_equal. specialize (IH i (S n)).
      rewrite each_ext with (g := fun j c => pays (length (if Nat.eqb i j then (k, (i, a)) :: filter (fun p : pick => Nat.eqb (fst (snd p)) (S n + j)) picked
                                         else filter (fun p : pick => Nat.eqb (fst (snd p)) (S n + j)) picked)) c).
      + rewrite IH. apply each_ext. intros j x. replace (S n + j)%nat with (n + S j)%nat by lia. reflexivity.
      + intros j x. replace (S n + j)%nat with (n + S j)%nat by lia. destruct (Nat.eqb i j); reflexivity. }
  intros clients. exact (G clients i 0%nat).
Qed.

Lemma waiting_after_a_pick : forall clients i c, In (i, c) (from 0 clients) -> charges c <> [] ->
  sum (map (fun c => length (charges c)) clients) = S (sum (map (fun c => length (charges c)) (pay i clients))).
Proof.
  assert (G : forall clients first i c, In (i, c) (from first clients) -> charges c <> [] ->
    sum (map (fun c => length (charges c)) clients) = S (sum (map (fun c => length (charges c)) (pay (i - first) clients)))).
  { induction clients as [|d clients IH]; intros first i c I N; [destruct I|]. rewrite from_cons in I.
    destruct I as [I|I].
    - inversion I; subst. rewrite Nat.sub_diag. cbn [pay map sum fold_right]. unfold paid.
      destruct (charges c) as [|x others] eqn:E; [congruence|]. cbn [charges length]. lia.
    - assert (S first <= i)%nat by (apply in_combine_l in I; apply in_seq in I; lia).
      replace (i - first)%nat with (S (i - S first)) by lia. cbn [pay map sum fold_right].
      specialize (IH (S first) i c I N). unfold sum in *. lia. }
  intros clients i c I N. specialize (G clients 0%nat i c I N). rewrite Nat.sub_0_r in G. exact G.
Qed.

Lemma nobody_waits : forall clients first, (forall j c, In (j, c) (from first clients) -> charges c = []) ->
  sum (map (fun c => length (charges c)) clients) = 0%nat.
Proof.
  induction clients as [|c clients IH]; intros first L; [reflexivity|].
  rewrite from_cons in L. cbn [map sum fold_right]. rewrite (L first c (or_introl eq_refl)). cbn [length Nat.add].
  apply (IH (S first)). intros j d I. apply (L j d). right. exact I.
Qed.

Lemma largest : forall l t x, fold_right Z.max (Z.max t x) l = Z.max x (fold_right Z.max t l).
Proof. induction l as [|y l IH]; intros t x; cbn [fold_right]; [lia|]. rewrite IH. lia. Qed.

Lemma a_round_enters_its_picks : forall asks R count running budget blocks time clients,
  round asks R count running budget blocks time clients =
    let '(entered, why, b, k) := enter R running budget blocks (map (fun p => asks (snd p)) (picks count clients)) in
    let picked := firstn (length entered) (picks count clients) in
    let waiting := sum (map (fun c => length (charges c)) clients) in
    (picked, entered, if Nat.eqb (length entered) count && Nat.ltb count waiting then 5 else why, b, k,
     fold_right Z.max time (map fst picked), settled picked clients).
Proof.
  intros asks R. induction count as [|n IH]; intros running budget blocks time clients; cbn [round picks].
  - cbn. pose proof (least_is clients 0) as L. destruct (least 0 clients) as [[i c]|].
    + destruct L as (I & N & _). rewrite (waiting_after_a_pick _ _ _ I N). cbn. rewrite settled_nil. reflexivity.
    + replace (sum (map (fun c => length (charges c)) clients)) with 0%nat; [cbn; rewrite settled_nil; reflexivity|].
      symmetry. exact (nobody_waits clients 0 L).
  - pose proof (least_is clients 0) as L. destruct (least 0 clients) as [[i c]|].
    + destruct L as (I & N & _). rewrite (waiting_after_a_pick _ _ _ I N). cbn [map snd].
      rewrite (enter_cons R running budget blocks _ (map (fun p => asks (snd p)) (picks n (pay i clients)))).
      destruct (enter_one R running budget blocks (asks (i, begin c))) as (l & why & b & k & E & Or).
      rewrite E. destruct Or as [(-> & -> & ->)|[one ->]].
      * cbn [length firstn Nat.eqb andb map fold_right]. rewrite settled_nil. reflexivity.
      * rewrite IH. set (queue := map (fun p => asks (snd p)) (picks n (pay i clients))).
        destruct (enter R (running + 1) b k queue) as [[[more why'] b'] k'].
        cbn [length firstn Nat.eqb map fst fold_right]. rewrite settled_next, largest.
        change (Nat.ltb (S n) (S ?x)) with (Nat.ltb n x). reflexivity.
    + cbn [map enter length firstn Nat.eqb andb fold_right]. rewrite settled_nil. reflexivity.
Qed.
