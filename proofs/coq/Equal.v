(* The scan forms decide what the loops decide, for lists of any length.  `Loops.v` and `Scans.v` say what they are, and the
   line above each theorem where the scan stands in the code. *)

From Coq Require Import List ZArith Lia Bool.
From Schedspec Require Import Loops Scans Prefixes Misfits Stacks Edges Merge Round.
Import ListNotations.
Open Scope Z_scope.

(* --- the token budget ------------------------------------------------------------------------------------------------- *)

(* A wish is what is known and not issued, at most a chunk. *)
(* scan: optimized/step.py compose *)
Theorem the_budget_loop_is_a_clamped_prefix_sum : forall chunk size budget running,
  0 <= budget -> (forall r, In r running -> 0 <= wish chunk r) ->
  compose_scan chunk size budget running = compose chunk size budget running.
Proof. exact compose_by_columns. Qed.

(* scan: kernels/budget.py budget_kernel *)
Theorem the_budget_by_tiles_with_a_carried_sum_is_the_loop : forall chunk size budget tile running,
  0 <= budget -> (0 < tile)%nat ->
  compose_tiles chunk size budget 0 (tiles (length running) tile running) = compose chunk size budget running.
Proof.
  intros. rewrite compose_by_tiles, concat_tiles by (auto; lia). rewrite Z.sub_0_r. reflexivity.
Qed.

(* --- victims ---------------------------------------------------------------------------------------------------------- *)

(* Each time somebody leaves, those who remain are composed anew; blocks are not shared. *)
(* scan: optimized/step.py kept *)
Theorem newest_first_preemption_keeps_the_longest_prefix_that_fits : forall chunk size budget free running,
  0 < size -> 0 <= budget -> 0 <= free ->
  (forall r, In r running -> 0 <= wish chunk r) -> (forall r, In r running -> 0 <= held r) ->
  preempt_scan chunk size budget free running = preempt chunk size budget free (rev running) [].
Proof. intros. symmetry. apply newest_first_is_the_longest_prefix; auto. Qed.

(* scan: kernels/victims.py victims_kernel *)
Theorem the_first_misfit_by_tiles_is_the_prefix_that_is_kept : forall free tile running needs,
  (0 < tile)%nat -> length needs = length running ->
  (forall r, In r running -> 0 <= held r) -> (forall n, In n needs -> 0 <= n) ->
  let sums := needs_and_held running needs in
  stay_tiles free (all_held running) 0 (tiles (length sums) tile sums) = kept free running needs.
Proof.
  intros free tile running needs T L H N sums. rewrite stay_by_tiles, concat_tiles by (auto; lia).
  symmetry. unfold kept, too_much. apply counting_is_searching. intros x. apply needs_and_held_nonneg; auto.
Qed.

(* --- admissions ------------------------------------------------------------------------------------------------------- *)

(* Who enters, tokens and blocks of each, why nobody more does, and what is left. *)
(* scan: kernels/room.py look *)
Theorem admissions_end_at_the_first_misfit_of_prefix_sums : forall R running budget blocks queue,
  0 < block_size R -> 0 <= watermark R -> (forall c, In c queue -> 0 <= chunk c /\ 0 <= tested c /\ 0 <= reserved c) ->
  0 <= running -> 0 <= budget ->
  enter_scan R running budget blocks queue = enter R running budget blocks queue.
Proof.
  intros R running budget blocks queue S W Q Ru B. unfold enter_scan.
  rewrite enter_by_tiles; try lia; [|split; auto|].
  - cbn [concat]. rewrite app_nil_r, Z.add_0_r, !Z.sub_0_r. reflexivity.
  - cbn [concat]. rewrite app_nil_r. exact Q.
Qed.

(* scan: kernels/admit_fcfs.py admit_fcfs_kernel *)
Theorem admissions_by_tiles_with_carried_sums_are_the_loop : forall R running budget blocks tile queue,
  0 < block_size R -> 0 <= watermark R -> (forall c, In c queue -> 0 <= chunk c /\ 0 <= tested c /\ 0 <= reserved c) ->
  0 <= running -> 0 <= budget -> (0 < tile)%nat ->
  enter_tiles R running budget blocks 0 0 0 (tiles (length queue) tile queue) = enter R running budget blocks queue.
Proof.
  intros R running budget blocks tile queue S W Q Ru B T.
  rewrite enter_by_tiles; try lia; rewrite ?concat_tiles by (auto; lia).
  - rewrite Z.add_0_r, !Z.sub_0_r. reflexivity.
  - split; auto.
  - exact Q.
Qed.

(* --- block ids -------------------------------------------------------------------------------------------------------- *)

(* scan: optimized/blocks.py append, optimized/blocks.py take *)
Theorem pops_one_by_one_are_one_slice_cut_into_parts : forall counts stack, (sum counts <= length stack)%nat ->
  grow_scan counts stack = grow counts stack.
Proof. intros. symmetry. apply growing_is_a_slice. auto. Qed.

(* scan: optimized/blocks.py give_all *)
Theorem tables_that_are_emptied_one_by_one_are_appended_reversed : forall leaving stack,
  release_scan leaving stack = release leaving stack.
Proof. intros. symmetry. apply releasing_is_an_append. Qed.

(* The block below the top is number 0. *)
(* scan: kernels/allocate.py pop *)
Theorem the_block_of_each_number_lies_where_a_search_of_prefix_sums_says : forall counts stack number,
  (sum counts <= length stack)%nat -> (number < sum counts)%nat ->
  let '(owner, place) := popped_to counts number in
  (owner < length counts)%nat /\ (place < nth owner counts 0)%nat
  /\ nth place (nth owner (fst (grow counts stack)) []) 0 = nth (length stack - 1 - number) stack 0.
Proof. exact each_popped_block_has_its_place. Qed.

(* scan: kernels/allocate.py push *)
Theorem what_is_pushed_comes_from_where_a_search_of_prefix_sums_says : forall leaving stack number,
  let counts := map (@length Z) leaving in
  (number < sum counts)%nat ->
  let '(owner, place) := pushed_from counts number in
  (owner < length leaving)%nat /\ (place < length (nth owner leaving []))%nat
  /\ nth (length stack + number) (release leaving stack) 0 = nth place (nth owner leaving []) 0.
Proof. exact each_pushed_block_has_its_place. Qed.

(* --- the calendar ----------------------------------------------------------------------------------------------------- *)

(* All decode: one known position is not issued, the table covers what was issued, none reaches its length within these
   steps, and the budget suffices.  Then the steps change two clocks, and the tables of those who stand at an edge. *)
(* scan: optimized/calendar.py at_edge, optimized/calendar.py write *)
Theorem while_all_decode_clocks_stand_for_positions_and_edges_for_blocks : forall chunk size budget running count,
  0 < size -> chunk = 0 \/ 1 <= chunk -> Z.of_nat (length running) <= budget ->
  (forall r, In r running -> decodes size (Z.of_nat count) r) ->
  let '(after, needs) := steps chunk size budget count running in
  let '(holds, grown) := ticks size 0 count (map issued running) (map held running) in
  after = written (Z.of_nat count) running holds /\ map where_positive needs = grown
  /\ Forall (Forall (fun n => n = 0 \/ n = 1)) needs.
Proof.
  intros chunk size budget running count S Ch B D.
  assert (W : written 0 running (map held running) = running).
  { clear. unfold written. induction running as [|r running IH]; [reflexivity|]. cbn [map]. rewrite both_cons, IH.
    destruct r as [l s i h]. cbn. f_equal. f_equal; lia. }
  pose proof (clocks chunk size budget S Ch running count 0 (map held running)) as C. rewrite W in C.
  apply C; auto.
  - apply map_length.
  - lia.
  - intros r R. destruct (D r R) as (L & M & _). split; auto.
  - intros r h I. assert (E : h = held r /\ In r running).
    { clear -I. induction running as [|q running IH]; [destruct I|]. cbn [map combine] in I. destruct I as [I|I].
      - inversion I; subst. split; auto. left. auto.
      - destruct (IH I). split; auto. right. auto. }
    destruct E as [-> R]. destruct (D r R) as (_ & _ & X). lia.
Qed.

(* scan: optimized/calendar.py at_edge *)
Theorem a_request_takes_a_block_at_most_once_in_block_size_steps :
  forall chunk size budget running count r first second,
  0 < size -> chunk = 0 \/ 1 <= chunk -> Z.of_nat (length running) <= budget ->
  (forall r, In r running -> decodes size (Z.of_nat count) r) ->
  let needs := snd (steps chunk size budget count running) in
  (first < second)%nat -> 0 < nth r (nth first needs []) 0 -> 0 < nth r (nth second needs []) 0 ->
  size <= Z.of_nat second - Z.of_nat first.
Proof.
  intros chunk size budget running count r first second S Ch B D needs L F G.
  pose proof (while_all_decode_clocks_stand_for_positions_and_edges_for_blocks chunk size budget running count S Ch B D) as E.
  unfold needs in *. destruct (steps chunk size budget count running) as [after given].
  assert (C : forall j, (j < length (map issued running))%nat ->
                nth j (map issued running) 0 + 0 <= nth j (map held running) 0 * size).
  { intros j J. rewrite map_length in J. pose proof (map_nth issued running (Runner 0 0 0 0) j) as I.
    pose proof (map_nth held running (Runner 0 0 0 0) j) as H. cbn [issued held] in I, H. rewrite I, H.
    destruct (D _ (nth_In running (Runner 0 0 0 0) J)) as (_ & _ & X). lia. }
  pose proof (edges_are_a_block_apart size count 0 (map issued running) (map held running) r first second S
                ltac:(rewrite !map_length; auto) C L) as A.
  destruct (ticks size 0 count (map issued running) (map held running)) as [holds grown]. destruct E as (_ & <- & _).
  cbn [snd] in *. change (@nil nat) with (where_positive []) in A. rewrite !map_nth in A. apply A; apply is_positive; auto.
Qed.

(* --- the Virtual Token Counter ---------------------------------------------------------------------------------------- *)

(* Ties go to the client of the lower number; a client's own requests keep their order. *)
(* scan: kernels/vtc_round.py vtc_round_kernel *)
Theorem repeated_picks_of_the_least_counter_are_a_sort_of_the_least_s_clients_times_s_requests : forall count clients,
  (forall c amount, In c clients -> In amount (charges c) -> 0 <= amount) ->
  picks_scan count clients = picks count clients.
Proof. intros count clients A. symmetry. apply picks_are_a_sort. intros c C amount. apply A. auto. Qed.

(* Who is picked must enter, or nobody more does; what is charged, and the virtual time. *)
(* scan: kernels/vtc_round.py vtc_round_kernel *)
Theorem a_round_of_the_virtual_token_counter_is_a_sort_and_its_first_misfit :
  forall asks R count running budget blocks time clients,
  (forall c amount, In c clients -> In amount (charges c) -> 0 <= amount) ->
  0 < block_size R -> 0 <= watermark R ->
  (forall request, 0 <= chunk (asks request) /\ 0 <= tested (asks request) /\ 0 <= reserved (asks request)) ->
  0 <= running -> 0 <= budget ->
  round_scan asks R count running budget blocks time clients = round asks R count running budget blocks time clients.
Proof.
  intros asks R count running budget blocks time clients A S W Q Ru B.
  rewrite a_round_enters_its_picks. unfold round_scan.
  rewrite repeated_picks_of_the_least_counter_are_a_sort_of_the_least_s_clients_times_s_requests by auto.
  rewrite admissions_end_at_the_first_misfit_of_prefix_sums; auto.
  intros c C. apply in_map_iff in C. destruct C as (p & <- & _). apply Q.
Qed.
