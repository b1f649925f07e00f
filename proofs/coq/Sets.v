(* What z3 is told of cardinalities and extremes holds of finite sets: of any universe of keys, whatever its size. *)

From Coq Require Import List ZArith Lia Bool.
Import ListNotations.
Open Scope Z_scope.

Section Finite.
Variable Key : Type.
Variable same : forall x y : Key, {x = y} + {x <> y}.
Variable universe : list Key.
Hypothesis no_twice : NoDup universe.
Hypothesis all_there : forall x, In x universe.

Definition set := Key -> bool.
Definition card (group : set) : Z := Z.of_nat (length (filter group universe)).
Definition with_ (group : set) (item : Key) : set := fun x => if same x item then true else group x.
Definition without (group : set) (item : Key) : set := fun x => if same x item then false else group x.

Lemma other_items : forall group value item keys, ~ In item keys ->
  filter (fun x => if same x item then value else group x) keys = filter group keys.
Proof.
  intros group value item. induction keys as [|x keys IH]; intros N; [reflexivity|]. cbn [filter].
  destruct (same x item) as [->|D]; [exfalso; apply N; left; auto|]. rewrite IH; [reflexivity|].
  intros I. apply N. right. auto.
Qed.

Lemma updated : forall group value item keys, NoDup keys -> In item keys ->
  Z.of_nat (length (filter (fun x => if same x item then value else group x) keys))
  = Z.of_nat (length (filter group keys)) + (if value then 1 else 0) - (if group item then 1 else 0).
Proof.
  intros group value item. induction keys as [|x keys IH]; intros D I; [destruct I|]. inversion D; subst. cbn [filter].
  destruct (same x item) as [->|N].
  - rewrite other_items by auto. destruct value, (group item); cbn [length]; lia.
  - destruct I as [->|I]; [congruence|]. specialize (IH H2 I). destruct (group x); cbn [length]; lia.
Qed.

Lemma counts : card (fun _ => false) = 0
  /\ (forall group, 0 <= card group)
  /\ (forall group item, group item = true -> 1 <= card group)
  /\ (forall group item, card (with_ group item) = card group + (if group item then 0 else 1))
  /\ (forall group item, card (without group item) = card group + (if group item then -1 else 0)).
Proof.
  unfold card. repeat split.
  - replace (filter (fun _ => false) universe) with (@nil Key); [reflexivity|].
    symmetry. clear. induction universe; cbn; auto.
  - intros. lia.
  - intros group item G. assert (I : In item (filter group universe)) by (apply filter_In; auto).
    destruct (filter group universe); [destruct I|cbn [length]; lia].
  - intros group item. unfold with_. rewrite updated by auto. destruct (group item); lia.
  - intros group item. unfold without. rewrite updated by auto. destruct (group item); lia.
Qed.

(* A least value among the members, or what stands for it where there are none; the greatest is the least of the negated. *)
Fixpoint least (values : Key -> Z) (otherwise : Z) (keys : list Key) : Z :=
  match keys with
  | [] => otherwise
  | [x] => values x
  | x :: others => Z.min (values x) (least values otherwise others)
  end.

Lemma least_of_some : forall values otherwise keys,
  (keys = [] -> least values otherwise keys = otherwise)
  /\ (keys <> [] -> exists witness, In witness keys /\ values witness = least values otherwise keys)
  /\ forall other, In other keys -> least values otherwise keys <= values other.
Proof.
  intros values otherwise. induction keys as [|x keys (_ & W & B)].
  { repeat split; [congruence|intros ? []]. }
  split; [discriminate|]. destruct keys as [|y keys].
  { split; [intros _; exists x; cbn; auto|]. intros other [->|[]]. cbn. lia. }
  change (least values otherwise (x :: y :: keys)) with (Z.min (values x) (least values otherwise (y :: keys))).
  set (rest := y :: keys) in *. destruct (W ltac:(discriminate)) as (w & I & E). split.
  - intros _. destruct (Z.leb_spec (values x) (least values otherwise rest)).
    + exists x. split; [left; auto|lia].
    + exists w. split; [right; auto|lia].
  - intros other [->|O]; [lia|]. specialize (B other O). lia.
Qed.

Lemma extremes : forall (values : Key -> Z) (among : set) (otherwise : Z), exists low high : Z,
  ((forall x, among x = false) -> low = otherwise /\ high = otherwise)
  /\ (forall x, among x = true ->
      (exists witness, among witness = true /\ values witness = low)
      /\ (exists witness, among witness = true /\ values witness = high)
      /\ low <= values x <= high).
Proof.
  intros values among otherwise. set (members := filter among universe).
  exists (least values otherwise members), (- least (fun x => - values x) (- otherwise) members).
  destruct (least_of_some values otherwise members) as (A & B & C).
  destruct (least_of_some (fun x => - values x) (- otherwise) members) as (A' & B' & C').
  split.
  - intros N. assert (E : members = []).
    { destruct members as [|x m] eqn:E; auto. assert (I : In x members) by (rewrite E; left; auto).
      unfold members in I. apply filter_In in I. destruct I as [_ I]. rewrite N in I. discriminate. }
    specialize (A E). specialize (A' E). lia.
  - intros x X. assert (I : In x members) by (apply filter_In; auto).
    assert (N : members <> []) by (intros E; rewrite E in I; destruct I).
    destruct (B N) as (w & W & V), (B' N) as (w' & W' & V').
    unfold members in W, W'. apply filter_In in W, W'. specialize (C x I). specialize (C' x I). cbn beta in *.
    split; [exists w; split; [apply W|lia]|]. split; [exists w'; split; [apply W'|lia]|]. lia.
Qed.
End Finite.

(* ground: proofs/smt.py _count, proofs/smt.py _note_update *)
Theorem what_z3_is_told_of_cardinalities_holds_of_finite_sets :
  forall (Key : Type) (same : forall x y : Key, {x = y} + {x <> y}) (universe : list Key),
  NoDup universe -> (forall x, In x universe) ->
  card Key universe (fun _ => false) = 0
  /\ (forall group, 0 <= card Key universe group)
  /\ (forall group item, group item = true -> 1 <= card Key universe group)
  /\ (forall group item,
      card Key universe (with_ Key same group item) = card Key universe group + (if group item then 0 else 1))
  /\ (forall group item,
      card Key universe (without Key same group item) = card Key universe group + (if group item then -1 else 0)).
Proof. exact counts. Qed.

(* ground: proofs/smt.py _extreme *)
Theorem what_z3_is_told_of_extremes_holds_of_finite_sets :
  forall (Key : Type) (universe : list Key), (forall x, In x universe) ->
  forall (values : Key -> Z) (among : Key -> bool) (otherwise : Z), exists low high : Z,
  ((forall x, among x = false) -> low = otherwise /\ high = otherwise)
  /\ (forall x, among x = true ->
      (exists witness, among witness = true /\ values witness = low)
      /\ (exists witness, among witness = true /\ values witness = high)
      /\ low <= values x <= high).
Proof. exact extremes. Qed.
