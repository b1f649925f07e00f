(* The scan forms of the loops, as `optimized/` and the kernels have them: what stands at a place follows from prefix sums
   alone, so all places may be computed at once. *)

From Coq Require Import List ZArith Bool.
From Schedspec Require Import Loops.
Import ListNotations.
Open Scope Z_scope.

(* Exclusive and inclusive prefix sums: cumsum(l) - l, and cumsum(l). *)
Definition before (l : list Z) (i : nat) : Z := total (firstn i l).
Definition upto (l : list Z) (i : nat) : Z := total (firstn (S i) l).

Definition places {A} (l : list A) : list nat := seq 0 (length l).
Definition each {A B} (f : nat -> A -> B) (l : list A) : list B := map (fun '(i, x) => f i x) (combine (places l) l).
Definition both {A B C} (f : A -> B -> C) (l : list A) (m : list B) : list C := map (fun '(x, y) => f x y) (combine l m).

(* The first place of which it is true, or the length: min(where(bad, place, length)). *)
Definition first_misfit (bad : list bool) : nat :=
  fold_right Nat.min (length bad) (map fst (filter snd (combine (places bad) bad))).

(* `flatnonzero`. *)
Definition where_positive (l : list Z) : list nat := map fst (filter (fun '(_, n) => 0 <? n) (combine (places l) l)).

(* Cut into tiles of so many; `fuel` is at least as many as there are. *)
Fixpoint tiles {A} (fuel tile : nat) (l : list A) : list (list A) :=
  match fuel, l with
  | S more, _ :: _ => firstn tile l :: tiles more tile (skipn tile l)
  | _, _ => []
  end.

(* --- the token budget ------------------------------------------------------------------------------------------------- *)

(* What is left after those before clamps each wish. *)
Definition clamped (budget given : Z) (wishes : list Z) : list Z :=
  each (fun i w => Z.min w (Z.max (budget - (given + before wishes i)) 0)) wishes.

(* optimized/step.py `compose`: the clamp only where it changes something, and blocks after it. *)
Definition compose_scan (chunk size budget : Z) (running : list runner) : list Z * list Z * Z :=
  let wishes := map (wish chunk) running in
  let tokens := if budget <? total wishes then clamped budget 0 wishes else wishes in
  (tokens, both (new_blocks size) tokens running, budget - total tokens).

(* kernels/budget.py `budget_kernel`: tiles with a carried sum, and no wish above the budget. *)
Fixpoint compose_tiles (chunk size budget given : Z) (cut : list (list runner)) : list Z * list Z * Z :=
  match cut with
  | [] => ([], [], budget - given)
  | running :: others =>
      let wishes := map (fun r => Z.min (Z.max (wish chunk r) 0) budget) running in
      let tokens := clamped budget given wishes in
      let '(more, needs, over) := compose_tiles chunk size budget (Z.min (given + total wishes) budget) others in
      (tokens ++ more, both (new_blocks size) tokens running ++ needs, over)
  end.

(* --- victims ---------------------------------------------------------------------------------------------------------- *)

Definition needs_and_held (running : list runner) (needs : list Z) : list Z := both (fun r n => n + held r) running needs.

Definition too_much (free all given : Z) (sums : list Z) : list bool :=
  map (fun i => free + all <? given + upto sums i) (places sums).

(* optimized/step.py `kept`: searchsorted(cumsum(needs + held), free + all held, side="right"). *)
Definition kept (free : Z) (running : list runner) (needs : list Z) : nat :=
  length (filter negb (too_much free (all_held running) 0 (needs_and_held running needs))).

Definition preempt_scan (chunk size budget free : Z) (running : list runner) : list runner * list runner :=
  let stay := kept free running (needs_of (compose_scan chunk size budget running)) in
  (firstn stay running, rev (skipn stay running)).

(* kernels/victims.py `victims_kernel`: the first misfit, by tiles with a carried sum; the first tile with one is the last. *)
Fixpoint stay_tiles (free all given : Z) (cut : list (list Z)) : nat :=
  match cut with
  | [] => 0
  | sums :: others =>
      let stay := first_misfit (too_much free all given sums) in
      if (stay <? length sums)%nat then stay else (stay + stay_tiles free all (given + total sums) others)%nat
  end.

(* --- admissions ------------------------------------------------------------------------------------------------------- *)

(* kernels/room.py `blocks_of`. *)
Definition blocks_of (positions size : Z) : Z := if 0 <? positions then (positions - 1) / size + 1 else 0.

(* kernels/room.py `look`: of a tile whose first is at `place`: tokens, blocks that are charged, and why each does not
   fit, as if all before it had entered. *)
Definition look (R : room) (running budget blocks tokens_given blocks_given place : Z) (tile : list candidate)
    : list (Z * Z * Z) :=
  let asked := map (fun c => Z.min (chunk c) budget) tile in
  let budgets := map (fun i => budget - tokens_given - before asked i) (places tile) in
  let tokens := both (fun a here => Z.min a (Z.max here 0)) asked budgets in
  let charges := both (fun c t => Z.min (blocks_of (Z.max t (reserved c)) (block_size R)) (Z.max blocks 0 + 1)) tile tokens in
  let room_left := map (fun i => blocks - blocks_given - before charges i) (places tile) in
  each (fun i '(c, (t, (charge, (tokens_here, blocks_here)))) =>
          let test := Z.max charge (blocks_of (tested c) (block_size R)) in
          let kept := if 0 <? place + Z.of_nat i + running then watermark R else 0 in
          (t, charge,
           if seats R <=? place + Z.of_nat i + running then 1
           else if (tokens_here <=? 0) || (negb (chunked R) && (t <? chunk c)) then 2
           else if (blocks_here <=? 0) || (blocks_here - kept <? test) then 3 else 0))
       (combine tile (combine tokens (combine charges (combine budgets room_left)))).

Definition misfits (looked : list (Z * Z * Z)) : list bool := map (fun '(_, why) => 0 <? why) looked.

(* Tiles with carried sums, up to the first misfit. *)
Fixpoint enter_tiles (R : room) (running budget blocks tokens_given blocks_given place : Z) (cut : list (list candidate))
    : list (Z * Z) * Z * Z * Z :=
  match cut with
  | [] => ([], 0, budget - tokens_given, blocks - blocks_given)
  | tile :: others =>
      let looked := look R running budget blocks tokens_given blocks_given place tile in
      let entered := first_misfit (misfits looked) in
      let entering := map fst (firstn entered looked) in
      let tokens_given := tokens_given + total (map fst entering) in
      let blocks_given := blocks_given + total (map snd entering) in
      if (entered <? length tile)%nat
      then (entering, snd (nth entered looked (0, 0, 0)), budget - tokens_given, blocks - blocks_given)
      else let '(more, why, budget_left, blocks_left) :=
             enter_tiles R running budget blocks tokens_given blocks_given (place + Z.of_nat (length tile)) others in
           (entering ++ more, why, budget_left, blocks_left)
  end.

(* All in one tile. *)
Definition enter_scan (R : room) (running budget blocks : Z) (queue : list candidate) : list (Z * Z) * Z * Z * Z :=
  enter_tiles R running budget blocks 0 0 0 [queue].

(* --- block ids -------------------------------------------------------------------------------------------------------- *)

(* optimized/blocks.py `take`: stack[free - count : free][::-1], and stack[: free - count]. *)
Definition slice (count : nat) (stack : list Z) : list Z * list Z :=
  (rev (skipn (length stack - count) stack), firstn (length stack - count) stack).

(* optimized/blocks.py `parts`. *)
Fixpoint parts (blocks : list Z) (counts : list nat) : list (list Z) :=
  match counts with [] => [] | n :: rest => firstn n blocks :: parts (skipn n blocks) rest end.

Definition sum (counts : list nat) : nat := fold_right Nat.add 0%nat counts.

Definition grow_scan (counts : list nat) (stack : list Z) : list (list Z) * list Z :=
  let '(taken, under) := slice (sum counts) stack in (parts taken counts, under).

(* optimized/blocks.py `give_all`. *)
Definition release_scan (leaving : list (list Z)) (stack : list Z) : list Z := stack ++ concat (map (@rev Z) leaving).

(* kernels/allocate.py `owner_of`: a binary search for the first whose inclusive prefix sum is above a number. *)
Fixpoint search (fuel : nat) (ends : nat -> nat) (number low high width : nat) : nat :=
  match fuel, width with
  | S more, S _ =>
      let middle := Nat.div2 (low + high) in
      let open := Nat.ltb low high in
      let goes_up := open && Nat.leb (ends middle) number in
      let goes_down := open && Nat.ltb number (ends middle) in
      search more ends number (if goes_up then S middle else low) (if goes_down then middle else high) (Nat.div2 width)
  | _, _ => low
  end.

Definition ends (counts : list nat) (i : nat) : nat := sum (firstn (S i) counts).

Definition owner_of (counts : list nat) (number : nat) : nat :=
  search (S (length counts)) (ends counts) number 0 (length counts) (length counts).

(* kernels/allocate.py `pop` and `push`: where the block of a number comes to lie, and where it comes from. *)
Definition popped_to (counts : list nat) (number : nat) : nat * nat :=
  let owner := owner_of counts number in (owner, number - (ends counts owner - nth owner counts 0))%nat.

Definition pushed_from (counts : list nat) (number : nat) : nat * nat :=
  let owner := owner_of counts number in (owner, ends counts owner - 1 - number)%nat.

(* --- the calendar: optimized/calendar.py ------------------------------------------------------------------------------- *)

(* `edges`: of each who runs, after how many steps the blocks that it holds are full. *)
Definition edges (size : Z) (starts holds : list Z) : list Z := both (fun start h => h * size - start) starts holds.

(* Who needs a block for the next step, `tick` steps after it began. *)
Definition at_edge (size tick : Z) (starts holds : list Z) : list nat :=
  filter (fun i => nth i (edges size starts holds) 0 <=? tick) (places starts).

Definition one_more (growing : list nat) (holds : list Z) : list Z :=
  each (fun i h => if existsb (Nat.eqb i) growing then h + 1 else h) holds.

Fixpoint ticks (size tick : Z) (count : nat) (starts holds : list Z) : list Z * list (list nat) :=
  match count with
  | O => (holds, [])
  | S n =>
      let growing := at_edge size tick starts holds in
      let '(after, grown) := ticks size (tick + 1) n starts (one_more growing holds) in (after, growing :: grown)
  end.

(* What the clocks stand for. *)
Definition written (tick : Z) (running : list runner) (holds : list Z) : list runner :=
  both (fun r h => Runner (left r) (samples_left r - tick) (issued r + tick) h) running holds.

(* --- a round of the Virtual Token Counter: kernels/vtc_round.py ----------------------------------------------------------- *)

Definition precedes (p q : pick) : bool :=
  let '(k, (i, a)) := p in let '(l, (j, b)) := q in
  (k <? l) || ((k =? l) && (Nat.ltb i j || (Nat.eqb i j && Nat.leb a b))).

Fixpoint insert (p : pick) (l : list pick) : list pick :=
  match l with [] => [p] | q :: rest => if precedes p q then p :: l else q :: insert p rest end.

Definition sorted (l : list pick) : list pick := fold_right insert [] l.

(* The keys of a client's requests: its counter, and what those before are charged. *)
Definition keys (most : nat) (numbered : nat * client) : list pick :=
  let '(i, c) := numbered in
  map (fun place => (counter c + before (charges c) place, (i, (begin c + place)%nat)))
      (seq 0 (Nat.min most (length (charges c)))).

Definition numbered (clients : list client) : list (nat * client) := combine (places clients) clients.

Definition heads (clients : list (nat * client)) : list pick :=
  flat_map (keys 1) clients.

(* Of the least so many clients so many requests each, sorted. *)
Definition near (count : nat) (clients : list client) : list (nat * client) :=
  let nearest := map (fun '(_, (i, _)) => i) (firstn count (sorted (heads (numbered clients)))) in
  filter (fun '(i, _) => existsb (Nat.eqb i) nearest) (numbered clients).

Definition picks_scan (count : nat) (clients : list client) : list pick :=
  firstn count (sorted (flat_map (keys count) (near count clients))).

(* What the picks that entered change: each client pays for its own. *)
Definition pays (many : nat) (c : client) : client :=
  Client (counter c + before (charges c) many) (begin c + length (firstn many (charges c))) (skipn many (charges c)).

Definition settled (picked : list pick) (clients : list client) : list client :=
  each (fun i c => pays (length (filter (fun p => Nat.eqb (fst (snd p)) i) picked)) c) clients.

(* A round: the first misfit of the picks ends it. *)
Definition round_scan (asks : nat * nat -> candidate) (R : room) (count : nat) (running budget blocks time : Z)
    (clients : list client) : list pick * list (Z * Z) * Z * Z * Z * Z * list client :=
  let picked := picks_scan count clients in
  let '(entered, why, budget, blocks) := enter_scan R running budget blocks (map (fun p => asks (snd p)) picked) in
  let picked := firstn (length entered) picked in
  let waiting := sum (map (fun c => length (charges c)) clients) in
  let why := if Nat.eqb (length entered) count && Nat.ltb count waiting then 5 else why in
  (picked, entered, why, budget, blocks, fold_right Z.max time (map fst picked), settled picked clients).
