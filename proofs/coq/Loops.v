(* The sequential loops of a step, one request after the other, as the reference and the plain twins of the kernels have
   them.  A list is in order of admission, or of the queue; a stack has its top at the end. *)

From Coq Require Import List ZArith Bool.
Import ListNotations.
Open Scope Z_scope.

Fixpoint total (l : list Z) : Z := match l with [] => 0 | x :: rest => x + total rest end.

(* -(-n // size) of Python. *)
Definition blocks_for (n size : Z) : Z := - (- n / size).

(* --- the token budget: reference/decide.py `compose`, kernels/budget.py `budget_plain` ----------------------------------- *)

Record runner := Runner { left : Z; samples_left : Z; issued : Z; held : Z }.

(* What it could run: known and not issued, at most a chunk (0: no limit); nothing if it is sure to end. *)
Definition wish (chunk : Z) (r : runner) : Z :=
  if 0 <? samples_left r then (if chunk =? 0 then left r else Z.min (left r) chunk) else 0.

Definition new_blocks (size tokens : Z) (r : runner) : Z :=
  let missing := issued r + tokens - held r * size in
  if (0 <? tokens) && (0 <? missing) then blocks_for missing size else 0.

(* Tokens and blocks of each, and what is left of the budget. *)
Fixpoint compose (chunk size budget : Z) (running : list runner) : list Z * list Z * Z :=
  match running with
  | [] => ([], [], budget)
  | r :: rest =>
      let tokens := Z.min (Z.max (wish chunk r) 0) budget in
      let '(more, needs, over) := compose chunk size (budget - tokens) rest in
      (tokens :: more, new_blocks size tokens r :: needs, over)
  end.

Definition tokens_of (plan : list Z * list Z * Z) : list Z := fst (fst plan).
Definition needs_of (plan : list Z * list Z * Z) : list Z := snd (fst plan).

(* --- victims, the newest first: reference/decide.py `decide`, kernels/victims.py `victims_plain` --------------------------- *)

Fixpoint all_held (running : list runner) : Z :=
  match running with [] => 0 | r :: rest => held r + all_held rest end.

(* Who remains is composed anew each time; then who left, in order.  `reversed`: the running list from its end. *)
Fixpoint preempt (chunk size budget free : Z) (reversed victims : list runner) : list runner * list runner :=
  let need := total (needs_of (compose chunk size budget (rev reversed))) in
  if need <=? free + all_held victims then (rev reversed, victims)
  else match reversed with
       | [] => ([], victims)
       | last :: others => preempt chunk size budget free others (victims ++ [last])
       end.

(* --- admissions from the head of the queue: kernels/room.py `enter_plain` -------------------------------------------------- *)

(* `chunk`: tokens that it would run first; `tested`: positions that blocks must be there for beyond those charged, 0 if
   no more; `reserved`: positions that blocks are taken for, 0 if those of this step. *)
Record candidate := Candidate { chunk : Z; tested : Z; reserved : Z }.

Record room := Room { seats : Z; watermark : Z; chunked : bool; block_size : Z }.

(* Why nobody more enters: 0 nobody is left, 1 no seat, 2 no tokens, 3 no blocks. *)
Fixpoint enter (R : room) (running budget blocks : Z) (queue : list candidate) : list (Z * Z) * Z * Z * Z :=
  match queue with
  | [] => ([], 0, budget, blocks)
  | c :: rest =>
      let tokens := Z.min (chunk c) budget in
      let charge := blocks_for (Z.max tokens (reserved c)) (block_size R) in
      let kept := if running =? 0 then 0 else watermark R in
      if seats R <=? running then ([], 1, budget, blocks)
      else if (budget <=? 0) || (negb (chunked R) && (tokens <? chunk c)) then ([], 2, budget, blocks)
      else if (blocks <=? 0) || (blocks - kept <? Z.max charge (blocks_for (tested c) (block_size R)))
      then ([], 3, budget, blocks)
      else let '(entered, why, budget_left, blocks_left) := enter R (running + 1) (budget - tokens) (blocks - charge) rest in
           ((tokens, charge) :: entered, why, budget_left, blocks_left)
  end.

(* --- block ids: kernels/allocate.py `allocate_plain`, reference/scheduler.py `give_all` and `grow` ------------------------- *)

Definition pop (stack : list Z) : Z * list Z := (last stack 0, removelast stack).

(* So many, one by one: who is popped, in order, and the stack after it. *)
Fixpoint pops (count : nat) (stack : list Z) : list Z * list Z :=
  match count with
  | O => ([], stack)
  | S n => let '(block, under) := pop stack in let '(taken, stack) := pops n under in (block :: taken, stack)
  end.

(* For each request so many, one request after the other. *)
Fixpoint grow (counts : list nat) (stack : list Z) : list (list Z) * list Z :=
  match counts with
  | [] => ([], stack)
  | n :: rest => let '(taken, stack) := pops n stack in let '(others, stack) := grow rest stack in (taken :: others, stack)
  end.

(* A table is emptied from its end. *)
Fixpoint empty (length : nat) (table stack : list Z) : list Z :=
  match length with
  | O => stack
  | S n => empty n (removelast table) (stack ++ [last table 0])
  end.

(* The tables of those who leave, the last one first; `reversed` is the list from its end. *)
Fixpoint release (reversed : list (list Z)) (stack : list Z) : list Z :=
  match reversed with
  | [] => stack
  | table :: others => release others (empty (length table) table stack)
  end.

(* --- steps of decodes: `compose` for each, and what it changes ------------------------------------------------------------ *)

(* A result brings the next known position. *)
Definition decoded (r : runner) (tokens needs : Z) : runner :=
  let samples := if left r - tokens =? 0 then 1 else 0 in
  Runner (left r - tokens + samples) (samples_left r - samples) (issued r + tokens) (held r + needs).

Fixpoint all_decoded (running : list runner) (tokens needs : list Z) : list runner :=
  match running, tokens, needs with
  | r :: rest, t :: ts, n :: ns => decoded r t n :: all_decoded rest ts ns
  | _, _, _ => []
  end.

(* After so many steps: who runs, and in each step how many blocks each got. *)
Fixpoint steps (chunk size budget : Z) (count : nat) (running : list runner) : list runner * list (list Z) :=
  match count with
  | O => (running, [])
  | S n =>
      let plan := compose chunk size budget running in
      let '(after, grown) := steps chunk size budget n (all_decoded running (tokens_of plan) (needs_of plan)) in
      (after, needs_of plan :: grown)
  end.

(* --- picks of the Virtual Token Counter: kernels/vtc_round.py `vtc_round_plain` -------------------------------------------- *)

(* A client: its counter, where its waiting requests begin, and what each of them is charged at the pick. *)
Record client := Client { counter : Z; begin : nat; charges : list Z }.

(* The first with the least counter among those with requests; numbers are counted from `number` on. *)
Fixpoint least (number : nat) (clients : list client) : option (nat * client) :=
  match clients with
  | [] => None
  | c :: rest =>
      match charges c, least (S number) rest with
      | [], best => best
      | _ :: _, None => Some (number, c)
      | _ :: _, Some (other, d) => if counter d <? counter c then Some (other, d) else Some (number, c)
      end
  end.

Definition paid (c : client) : client :=
  match charges c with [] => c | amount :: others => Client (counter c + amount) (S (begin c)) others end.

Fixpoint pay (number : nat) (clients : list client) : list client :=
  match clients, number with
  | [], _ => []
  | c :: rest, O => paid c :: rest
  | c :: rest, S n => c :: pay n rest
  end.

(* A pick: the counter at it, the number of the client, where the request stands. *)
Definition pick := (Z * (nat * nat))%type.

Fixpoint picks (count : nat) (clients : list client) : list pick :=
  match count with
  | O => []
  | S n => match least 0 clients with
           | None => []
           | Some (i, c) => (counter c, (i, begin c)) :: picks n (pay i clients)
           end
  end.

(* The round: who is picked must enter, or nobody more does (why 5: all picks of the round entered, and some still wait).
   `asks`: what the request of a client at a place asks for. *)
Fixpoint round (asks : nat * nat -> candidate) (R : room) (count : nat) (running budget blocks time : Z)
    (clients : list client) : list pick * list (Z * Z) * Z * Z * Z * Z * list client :=
  match least 0 clients with
  | None => ([], [], 0, budget, blocks, time, clients)
  | Some (i, c) =>
      match count with
      | O => ([], [], 5, budget, blocks, time, clients)
      | S n =>
          match enter R running budget blocks [asks (i, begin c)] with
          | ([one], _, budget, blocks) =>
              let '(picked, entered, why, budget, blocks, time, after) :=
                round asks R n (running + 1) budget blocks (Z.max time (counter c)) (pay i clients) in
              ((counter c, (i, begin c)) :: picked, one :: entered, why, budget, blocks, time, after)
          | (_, why, _, _) => ([], [], why, budget, blocks, time, clients)
          end
      end
  end.
