(* No policy does better than half of that: whoever is admitted first by a policy that does not idle gets a whole memory
   of tokens before the other gets anything (Sheng et al., OSDI 2024, Theorem 4.8).

   A policy is any function: it knows all requests, their lengths too, and whatever was done so far.  It admits one request
   after the other, each of which reserves its memory, and nobody is preempted: a move that takes memory back before a
   request has all its outputs does not exist. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Model Bounds Memory Tokens.
Import ListNotations.
Open Scope Z_scope.

(* An iteration brings everybody who runs one output. *)
Inductive move := Admit (name : nat) | Iterate.

Definition policy := list job -> list move -> move.

Section Game.
Variables w_p w_q M : Z.

Definition by_tokens : scheduler := plain (linear (fun _ => 1) w_p w_q) false (reserves M) true true true true.

Lemma priced : forall j, billed by_tokens j = w_p * paid_prompt j + w_q * paid_outputs j.
Proof. intros. rewrite (billed_is by_tokens (fun _ => 1) w_p w_q eq_refl). lia. Qed.

Definition somebody_fits (s : state) : bool := existsb (reserves M (running s)) (waiting s).

Fixpoint outputs_cost (u : nat) (jobs : list job) : Z :=
  match jobs with
  | [] => 0
  | j :: rest => (if Nat.eqb (owner j) u then billed by_tokens (with_one_more j) - billed by_tokens j else 0) + outputs_cost u rest
  end.

Definition idle (s : state) : bool := match running s with [] => true | _ => false end.

(* Charged as in the model.  Admitted is who waits and fits; and no iteration is empty while somebody fits. *)
Definition act (s : state) (m : move) : option state :=
  match m with
  | Admit name =>
      match take name (waiting s) with
      | Some (j, rest) =>
          let k := paid_up_to j (prompt j) 0 in let u := owner j in
          if reserves M (running s) j
          then Some (State (counter s) (set (service s) u (service s u + (billed by_tokens k - billed by_tokens j)))
                           rest (k :: running s) (last_left s) (virtual_time s) (certificate s) (picks s))
          else None
      | None => None
      end
  | Iterate =>
      if idle s && somebody_fits s then None
      else Some (State (counter s) (fun u => service s u + outputs_cost u (running s)) (waiting s)
                       (filter (fun j => outputs j <? limit j) (map with_one_more (running s)))
                       (last_left s) (virtual_time s) (certificate s) (picks s))
  end.

Definition all_wait (requests : list job) : state := State (fun _ => 0) (fun _ => 0) requests [] None 0 0 0.

(* So many moves; none if one of them is against the rules. *)
Fixpoint play (P : policy) (requests : list job) (done : list move) (n : nat) (s : state) : option state :=
  match n with
  | O => Some s
  | Datatypes.S n => let m := P requests done in
                     match act s m with Some t => play P requests (done ++ [m]) n t | None => None end
  end.

Definition asks (name client : nat) (prompt_tokens max_outputs : Z) : job :=
  Job name client prompt_tokens max_outputs 0 false 0 0 0 0.

(* Whatever comes, if each request fits alone, it never makes a move against the rules. *)
Definition keeps_the_rules (P : policy) : Prop := forall requests n,
  (forall j, In j requests -> exists name u p o, j = asks name u p o /\ 0 <= p /\ 0 < o /\ p + o <= M) ->
  play P requests [] n (all_wait requests) <> None.

(* Two of each client, each of which takes all of the memory. *)
Definition adversary (p : Z) : list job := [asks 0 0 p (M - p); asks 1 0 p (M - p); asks 2 1 p (M - p); asks 3 1 p (M - p)].

Lemma adversary_is_fair : forall p j, 0 <= p < M -> In j (adversary p) ->
  exists name u p o, j = asks name u p o /\ 0 <= p /\ 0 < o /\ p + o <= M.
Proof.
  intros p j B J. unfold adversary in J. cbn [In] in J.
  repeat (destruct J as [<-|J]; [do 4 eexists; split; [reflexivity|lia]|]). destruct J.
Qed.

(* While one runs that has all the memory, nothing but iterations is allowed, and it gets all of them. *)
Lemma one_runs : forall P requests k done x y j, play P requests done k x = Some y ->
  running x = [j] -> size j = M -> 0 < M -> (forall q, In q (waiting x) -> size q = M) ->
  paid_outputs j = outputs j -> Z.of_nat k <= limit j - outputs j ->
  waiting y = waiting x
  /\ forall u, service y u = service x u + (if Nat.eqb (owner j) u then w_q * Z.of_nat k else 0).
Proof.
  intros P requests. induction k as [|k IH]; cbn [play]; intros done x y j H R Sj Pos W Paid K.
  { inversion H; subst. split; auto. intros u. destruct (Nat.eqb (owner j) u); lia. }
  destruct (act x (P requests done)) as [z|] eqn:A; [|discriminate].
  destruct (P requests done) as [name|]; cbn [act] in A.
  - destruct (take name (waiting x)) as [[q rest]|] eqn:T; [|discriminate]. destruct (take_in _ _ _ _ T) as [Q _].
    unfold reserves in A. rewrite R in A. cbn [reserved] in A. rewrite (W _ Q), Sj in A.
    replace (M + (M + 0) <=? M) with false in A by (symmetry; apply Z.leb_gt; lia). discriminate.
  - unfold idle in A. rewrite R in A. cbn [andb map filter outputs_cost] in A. inversion A; subst z. clear A.
    set (j' := with_one_more j) in *.
    assert (C : billed by_tokens j' - billed by_tokens j = w_q).
    { rewrite !priced. unfold j'. cbn [paid_prompt paid_outputs with_one_more]. rewrite Paid, Z.max_r by lia. ring. }
    assert (Facts : paid_outputs j' = outputs j' /\ outputs j' = outputs j + 1 /\ limit j' = limit j /\ size j' = size j)
      by (unfold j'; simpl; rewrite Paid; repeat split; lia).
    destruct Facts as (Pj & Oj & Lj & Zj). destruct k as [|k].
    + cbn [play] in H. inversion H; subst y. cbn [waiting service]. split; auto. intros u. rewrite C.
      destruct (Nat.eqb (owner j) u); lia.
    + replace (outputs j + 1 <? limit j) with true in H by (symmetry; apply Z.ltb_lt; lia).
      destruct (IH _ _ y j' H eq_refl ltac:(lia) Pos W Pj ltac:(lia)) as [Wy Sy]. cbn [waiting service] in Wy, Sy.
      split; auto. intros u. rewrite Sy, C. change (owner j') with (owner j). destruct (Nat.eqb (owner j) u); lia.
Qed.

(* Who is first gets it all; and of either client somebody waits. *)
Lemma first_is_all : forall (P : policy) p x, 0 <= p < M -> act (all_wait (adversary p)) (P (adversary p) []) = Some x ->
  exists j, running x = [j] /\ size j = M /\ (forall q, In q (waiting x) -> size q = M)
    /\ paid_outputs j = outputs j /\ outputs j = 0 /\ limit j = M - p
    /\ waits 0 x = true /\ waits 1 x = true /\ (owner j = 0%nat \/ owner j = 1%nat)
    /\ forall u, service x u = if Nat.eqb (owner j) u then w_p * p else 0.
Proof.
  intros P p x B A. destruct (P (adversary p) []) as [name|]; cbn [act] in A.
  - assert (F : forall n u, reserves M [] (asks n u p (M - p)) = true).
    { intros. unfold reserves. apply Z.leb_le. cbn. unfold size. cbn. lia. }
    assert (C : forall n u, billed by_tokens (paid_up_to (asks n u p (M - p)) p 0) - billed by_tokens (asks n u p (M - p))
                            = w_p * p).
    { intros. rewrite !priced. cbn [paid_prompt paid_outputs paid_up_to asks prompt]. rewrite Z.min_id, !Z.max_r by lia. ring. }
    unfold all_wait, adversary in A. cbn [waiting running service take] in A.
    do 4 (destruct name as [|name]; [
      cbn [Nat.eqb id asks] in A; change (prompt (asks _ _ p (M - p))) with p in A; rewrite F in A;
      inversion A; subst x; clear A; eexists; split; [reflexivity|];
      cbn [waiting service owner paid_up_to asks];
      split; [unfold size; simpl; lia|];
      split; [intros q Q; cbn [In] in Q; repeat (destruct Q as [<-|Q]; [unfold size; simpl; lia|]); destruct Q|];
      do 5 (split; [reflexivity|]); split; [simpl; auto|];
      intros u; change (owner (asks ?n ?c p (M - p))) with c; rewrite C; unfold set; rewrite Nat.eqb_sym;
      cbn [owner asks paid_up_to]; destruct (Nat.eqb _ u); lia|]).
    cbn in A. discriminate.
  - exfalso. cbn [all_wait idle running andb somebody_fits adversary waiting existsb] in A.
    unfold reserves in A. cbn [reserved size asks prompt limit] in A.
    unfold somebody_fits, all_wait, adversary in A. cbn [waiting running existsb] in A.
    unfold reserves in A. cbn [reserved] in A. unfold size in A. cbn in A.
    replace (p + (M - p) + 0 <=? M) with true in A by (symmetry; apply Z.leb_le; lia). discriminate.
Qed.

Lemma a_whole_memory_ahead : forall (P : policy) p, keeps_the_rules P -> 0 <= p < M ->
  let n := Datatypes.S (Z.to_nat (M - p)) in
  let start := all_wait (adversary p) in
  exists t, play P (adversary p) [] n start = Some t
    /\ (forall m, (m <= n)%nat -> exists x, play P (adversary p) [] m start = Some x /\ waits 0 x = true /\ waits 1 x = true)
    /\ Z.abs (got 0 start t - got 1 start t) = Z.abs (w_p * p + w_q * (M - p)).
Proof.
  intros P p Rules B n start. pose proof (Rules (adversary p)) as Legal.
  specialize (fun k => Legal k (fun j => adversary_is_fair p j B)). fold start in Legal.
  assert (All : forall m, exists x, play P (adversary p) [] m start = Some x).
  { intros m. specialize (Legal m). destruct (play P (adversary p) [] m start); [eauto|congruence]. }
  destruct (All 1%nat) as [x1 X1]. cbn [play] in X1.
  destruct (act start (P (adversary p) [])) as [x|] eqn:A; [|discriminate]. inversion X1; subst x1. clear X1.
  destruct (first_is_all P p x B A) as (j & Rj & Sj & Wj & Pj & Oj & Lj & W0 & W1 & Who & Sv).
  assert (Later : forall m, (m <= n)%nat -> exists y, play P (adversary p) [] m start = Some y /\ waits 0 y = true /\ waits 1 y = true
            /\ (m = n -> forall u, service y u = if Nat.eqb (owner j) u then w_p * p + w_q * (M - p) else 0)).
  { intros [|m] Lm.
    - exists start. repeat split; auto. intros E. unfold n in E. discriminate.
    - destruct (All (Datatypes.S m)) as [y Y]. exists y. split; [exact Y|]. cbn [play] in Y. rewrite A in Y.
      destruct (one_runs _ _ _ _ _ _ j Y Rj Sj ltac:(lia) Wj Pj ltac:(unfold n in Lm; lia)) as [Wy Sy].
      unfold waits. rewrite Wy. split; [exact W0|]. split; [exact W1|].
      intros E u. rewrite Sy, Sv. inversion E. destruct (Nat.eqb (owner j) u); lia. }
  destruct (Later n (le_n n)) as (t & T & _ & _ & Sn). exists t. split; [exact T|]. split.
  - intros m Lm. destruct (Later m Lm) as (y & Y & Y0 & Y1 & _). eauto.
  - unfold got. rewrite !(Sn eq_refl). cbn [start all_wait service]. destruct Who as [-> | ->]; cbn [Nat.eqb]; lia.
Qed.
End Game.

(* Two clients wait all through n moves, and one of them gets a whole memory of tokens more: prompts of p and outputs for
   the rest.  With prompts of no tokens that is w_q·M. *)
(* lower: FAIR-8 *)
Theorem no_policy_that_neither_idles_nor_preempts_keeps_two_that_wait_closer_than_a_whole_memory :
  forall w_p w_q M p P, 0 <= w_p -> 0 <= w_q -> 0 <= p < M -> keeps_the_rules w_p w_q M P ->
  exists requests n t, (forall j, In j requests -> prompt j = p)
    /\ play w_p w_q M P requests [] n (all_wait requests) = Some t
    /\ (forall m, (m <= n)%nat -> exists x, play w_p w_q M P requests [] m (all_wait requests) = Some x
          /\ waits 0 x = true /\ waits 1 x = true)
    /\ Z.abs (got 0 (all_wait requests) t - got 1 (all_wait requests) t) = w_p * p + w_q * (M - p).
Proof.
  intros w_p w_q M p P Wp Wq B Rules. destruct (a_whole_memory_ahead w_p w_q M P p Rules B) as (t & T & W & D).
  exists (adversary M p), (Datatypes.S (Z.to_nat (M - p))), t. split.
  - intros j J. unfold adversary in J. cbn [In] in J. repeat (destruct J as [<-|J]; [reflexivity|]). destruct J.
  - split; [exact T|]. split; [exact W|]. rewrite D. apply Z.abs_eq. nia.
Qed.

(* The closed form of U, half of what Virtual Token Counter keeps: w_q·M, and more where a prompt token is dearer. *)
(* lower: FAIR-8 *)
Theorem the_bound_of_the_virtual_token_counter_is_at_most_twice_that_of_any_such_policy :
  forall w_p w_q M L P, 0 <= w_p -> 0 <= w_q -> 0 <= L < M -> keeps_the_rules w_p w_q M P ->
  exists requests n t, (forall j, In j requests -> 0 <= prompt j <= L)
    /\ play w_p w_q M P requests [] n (all_wait requests) = Some t
    /\ (forall m, (m <= n)%nat -> exists x, play w_p w_q M P requests [] m (all_wait requests) = Some x
          /\ waits 0 x = true /\ waits 1 x = true)
    /\ Z.abs (got 0 (all_wait requests) t - got 1 (all_wait requests) t) = w_q * M + Z.max 0 (w_p - w_q) * L.
Proof.
  intros w_p w_q M L P Wp Wq B Rules. set (p := if w_p <=? w_q then 0 else L).
  assert (Bp : 0 <= p <= L) by (unfold p; destruct (w_p <=? w_q); lia).
  destruct (no_policy_that_neither_idles_nor_preempts_keeps_two_that_wait_closer_than_a_whole_memory
              w_p w_q M p P Wp Wq ltac:(lia) Rules) as (requests & n & t & A & T & W & D).
  exists requests, n, t. split; [intros j J; rewrite (A j J); exact Bp|]. split; [exact T|]. split; [exact W|].
  rewrite D. unfold p. destruct (Z.leb_spec w_p w_q); [rewrite Z.max_l by lia|rewrite Z.max_r by lia]; ring.
Qed.

(* --- such policies exist --------------------------------------------------------------------------------------------------- *)

Fixpoint replayed (w_p w_q M : Z) (s : state) (done : list move) : option state :=
  match done with
  | [] => Some s
  | m :: rest => match act w_p w_q M s m with Some t => replayed w_p w_q M t rest | None => None end
  end.

(* Whoever fits first; an iteration if nobody does. *)
Definition first_that_fits (w_p w_q M : Z) : policy := fun requests done =>
  match replayed w_p w_q M (all_wait requests) done with
  | Some s => match find (fun m => match act w_p w_q M s m with Some _ => true | None => false end)
                         (map (fun j => Admit (id j)) (waiting s)) with
              | Some m => m
              | None => Iterate
              end
  | None => Iterate
  end.

Lemma replayed_more : forall w_p w_q M done s t m u, replayed w_p w_q M s done = Some t -> act w_p w_q M t m = Some u ->
  replayed w_p w_q M s (done ++ [m]) = Some u.
Proof.
  induction done as [|d done IH]; cbn [app replayed]; intros s t m u R A.
  - inversion R; subst. rewrite A. reflexivity.
  - destruct (act w_p w_q M s d); [eauto|discriminate].
Qed.

(* witness: no_policy_that_neither_idles_nor_preempts_keeps_two_that_wait_closer_than_a_whole_memory, the_bound_of_the_virtual_token_counter_is_at_most_twice_that_of_any_such_policy *)
Theorem who_admits_the_first_that_fits_keeps_the_rules : forall w_p w_q M, keeps_the_rules w_p w_q M (first_that_fits w_p w_q M).
Proof.
  intros w_p w_q M requests n Fair.
  (* Whoever waits fits alone, and once. *)
  assert (Step : forall s done, replayed w_p w_q M (all_wait requests) done = Some s ->
    (forall j, In j (waiting s) -> size j <= M) ->
    exists t, act w_p w_q M s (first_that_fits w_p w_q M requests done) = Some t /\ (forall j, In j (waiting t) -> size j <= M)).
  { intros s done R Alone. unfold first_that_fits. rewrite R.
    destruct (find _ (map _ (waiting s))) as [m|] eqn:F.
    - apply find_some in F. destruct F as [I A]. destruct (act w_p w_q M s m) as [t|] eqn:E; [|discriminate].
      exists t. split; auto. apply in_map_iff in I. destruct I as (j & <- & _). cbn [act] in E.
      destruct (take (id j) (waiting s)) as [[k rest]|] eqn:T; [|discriminate]. destruct (take_in _ _ _ _ T) as [_ L].
      destruct (reserves M (running s) k); [|discriminate]. inversion E. cbn [waiting]. auto.
    - cbn [act]. destruct (idle s) eqn:Id; [|eexists; split; [reflexivity|exact Alone]].
      destruct (somebody_fits M s) eqn:So; [|eexists; split; [reflexivity|exact Alone]].
      exfalso. unfold somebody_fits in So. apply existsb_exists in So. destruct So as (j & J & _).
      pose proof (find_none _ _ F (Admit (id j)) ltac:(apply in_map_iff; eauto)) as N. cbn [act] in N.
      destruct (take (id j) (waiting s)) as [[k rest]|] eqn:T.
      + destruct (take_in _ _ _ _ T) as [K _]. unfold idle in Id. destruct (running s); [|discriminate].
        unfold reserves in N. cbn [reserved] in N. specialize (Alone k K).
        replace (size k + 0 <=? M) with true in N by (symmetry; apply Z.leb_le; lia). discriminate.
      + clear -J T. induction (waiting s) as [|x jobs IH]; [destruct J|]. cbn [take] in T.
        destruct (Nat.eqb (id x) (id j)) eqn:E; [discriminate|]. destruct J as [->|J]; [rewrite Nat.eqb_refl in E; discriminate|].
        destruct (take (id j) jobs) as [[k others]|]; [discriminate|]. auto. }
  assert (All : forall n done s, replayed w_p w_q M (all_wait requests) done = Some s ->
    (forall j, In j (waiting s) -> size j <= M) -> play w_p w_q M (first_that_fits w_p w_q M) requests done n s <> None).
  { clear n. induction n as [|n IH]; cbn [play]; intros done s R Alone; [discriminate|].
    destruct (Step s done R Alone) as (t & A & B). rewrite A. apply IH; auto. eapply replayed_more; eauto. }
  apply (All n [] (all_wait requests)); [reflexivity|].
  intros j J. destruct (Fair j J) as (name & u & p & o & -> & _ & _ & F). unfold size. cbn. lia.
Qed.
