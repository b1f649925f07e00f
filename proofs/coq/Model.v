(* Virtual Token Counter (Sheng et al., OSDI 2024, Algorithm 2) over lists of requests, as `spec/ledger.py` keeps it; with
   a quantum above 1, deficit round robin, as the reference's `Drr` and `Dlpm` keep it; and with bursts, lanes, as
   `spec/lane_ledger.py` keeps them: what is said of clients here holds of lanes, an owner being a lane then.

   The memory is not modelled: `admits` is any test at all, so what is proved without a word about it holds for every
   memory policy.  Four switches leave out, one by one, what the theorems need; `Needed.v` shows what happens then. *)

From Coq Require Import List ZArith Lia Bool.
Import ListNotations.
Open Scope Z_scope.

(* A request and how far it is.  Its client has paid for `paid_prompt` positions and `paid_outputs` outputs.  `since`: how
   many picks there had been when it began to wait. *)
Record job := Job {
  id : nat; owner : nat; prompt : Z; limit : Z; predicted : Z;
  entered : bool; paid_prompt : Z; paid_outputs : Z; outputs : Z; since : Z }.

(* What a client pays for a request, for its first n positions, and for its first n outputs after such a prompt. *)
Record tariff := Tariff { entry : nat -> Z; input : nat -> Z -> Z; output : nat -> Z -> Z -> Z }.

Record scheduler := Scheduler {
  costs : tariff;
  credit : Z;                           (* how far above the least counter aging may pick *)
  patience : Z;                         (* and after how many picks that a request has seen while it waited *)
  burst : nat -> Z;                     (* how far below the virtual time a client may come back *)
  quantum : Z;                          (* counters are compared in quanta; in those of 1 they are compared themselves *)
  by_chunk : bool;                      (* a prompt is charged where it is computed, not whole at the pick *)
  admits : list job -> job -> bool;     (* what runs, and who is to join it *)
  holds : list job -> list job -> nat -> bool;   (* what waits, what runs, and a client whose cap is reached by that *)
  stops_at_the_head : bool;
  lifts_into_an_empty_queue : bool;
  lifts_victims : bool;
  floors_refunds : bool }.

(* `service`: charges less refunds.  `certificate`: the most that a client was charged, or could still be, at a pick, and
   beside it what was passed over there by right.  `picks`: how many there were. *)
Record state := State {
  counter : nat -> Z; service : nat -> Z; waiting : list job; running : list job;
  last_left : option nat; virtual_time : Z; certificate : Z; picks : Z }.

Definition initial := State (fun _ => 0) (fun _ => 0) [] [] None 0 0 0.

Inductive event :=
  | Arrive (name client : nat) (prompt_tokens max_outputs prediction : Z)
  | Pick (name : nat) (cached : Z)
  | Compute (name : nat) (upto : Z)
  | Serve (name : nat)
  | Finish (name : nat)
  | Withdraw (name : nat)
  | Preempt (name : nat).

(* --- parts ------------------------------------------------------------------------------------------------------ *)

Fixpoint take (name : nat) (jobs : list job) : option (job * list job) :=
  match jobs with
  | [] => None
  | j :: rest =>
      if Nat.eqb (id j) name then Some (j, rest)
      else match take name rest with Some (k, others) => Some (k, j :: others) | None => None end
  end.

Definition waits (u : nat) (s : state) : bool := existsb (fun j => Nat.eqb (owner j) u) (waiting s).

Fixpoint least (c : nat -> Z) (jobs : list job) : option Z :=
  match jobs with
  | [] => None
  | j :: rest => match least c rest with Some m => Some (Z.min (c (owner j)) m) | None => Some (c (owner j)) end
  end.

Definition set (f : nat -> Z) (u : nat) (x : Z) : nat -> Z := fun i => if Nat.eqb i u then x else f i.

Section Step.
Variable S : scheduler.

Definition billed (j : job) : Z :=
  (if entered j then entry (costs S) (owner j) else 0)
  + input (costs S) (owner j) (paid_prompt j) + output (costs S) (owner j) (prompt j) (paid_outputs j).

Definition whole (j : job) : Z :=
  entry (costs S) (owner j) + input (costs S) (owner j) (prompt j) + output (costs S) (owner j) (prompt j) (limit j).

Definition unpaid (j : job) : Z := whole j - billed j.

Fixpoint committed (u : nat) (jobs : list job) : Z :=
  match jobs with
  | [] => 0
  | j :: rest => (if Nat.eqb (owner j) u then unpaid j else 0) + committed u rest
  end.

Definition paid_up_to (j : job) (positions predicted_outputs : Z) : job :=
  Job (id j) (owner j) (prompt j) (limit j) (predicted j) true
      (Z.max (paid_prompt j) (Z.min positions (prompt j))) (Z.max (paid_outputs j) predicted_outputs) (outputs j) (since j).

Definition with_one_more (j : job) : job :=
  Job (id j) (owner j) (prompt j) (limit j) (predicted j) (entered j)
      (paid_prompt j) (Z.max (paid_outputs j) (outputs j + 1)) (outputs j + 1) (since j).

Definition without_refund (j : job) : job :=
  Job (id j) (owner j) (prompt j) (limit j) (predicted j) (entered j) (paid_prompt j) (outputs j) (outputs j) (since j).

Definition begins_to_wait (now : Z) (j : job) : job :=
  Job (id j) (owner j) (prompt j) (limit j) (predicted j) (entered j) (paid_prompt j) (paid_outputs j) (outputs j) now.

(* Where the round of a counter begins. *)
Definition mark (c : Z) : Z := c / quantum S * quantum S.

(* To whom a client that comes back is lifted: the least that waits, or who left last; to the begin of its round. *)
Definition lift (s : state) : option Z :=
  match least (counter s) (waiting s), last_left s with
  | Some m, _ => Some (mark m)
  | None, Some l => if lifts_into_an_empty_queue S then Some (mark (counter s l)) else None
  | None, None => None
  end.

Definition enter (lifted : bool) (j : job) (s : state) : state :=
  let u := owner j in let jobs := begins_to_wait (picks s) j :: waiting s in
  match (if lifted && negb (waits u s) then lift s else None) with
  | Some m => let v := Z.max (virtual_time s) m in
              State (set (counter s) u (Z.max (counter s u) (v - burst S u))) (service s) jobs (running s)
                    (last_left s) v (certificate s) (picks s)
  | None => State (counter s) (service s) jobs (running s) (last_left s) (virtual_time s) (certificate s) (picks s)
  end.

Definition left_by (u : nat) (rest : list job) (s : state) : option nat :=
  if existsb (fun j => Nat.eqb (owner j) u) rest then last_left s else Some u.

(* A running request, changed, and what that charges. *)
Definition charged (j k : job) (rest : list job) (s : state) : state :=
  let u := owner j in let amount := billed k - billed j in
  State (set (counter s) u (counter s u + amount)) (set (service s) u (service s u + amount))
        (waiting s) (k :: rest) (last_left s) (virtual_time s) (certificate s) (picks s).

(* A refund never takes a counter below the virtual time. *)
Definition settled (j : job) (s : state) : state :=
  let u := owner j in let c := counter s u in
  let due := billed j - billed (without_refund j) in
  let c' := if floors_refunds S then Z.max (c - due) (Z.min c (virtual_time s)) else c - due in
  State (set (counter s) u c') (set (service s) u (service s u - (c - c')))
        (waiting s) (running s) (last_left s) (virtual_time s) (certificate s) (picks s).

(* A request of it has waited so long that aging prefers it. *)
Definition preferred (u : nat) (s : state) : bool :=
  existsb (fun j => Nat.eqb (owner j) u && (patience S <=? picks s - since j)) (waiting s).

(* Whom no cap holds. *)
Definition ready (s : state) : list job := filter (fun j => negb (holds S (waiting s) (running s) (owner j))) (waiting s).

Definition in_turn (j : job) (s : state) : bool :=
  let u := owner j in
  let who := if stops_at_the_head S then ready s else filter (admits S (running s)) (ready s) in
  match least (counter s) who with
  | Some m => negb (holds S (waiting s) (running s) u)
              && ((counter s u - (if preferred u s then credit S else 0)) / quantum S <=? m / quantum S)
  | None => false
  end.

(* Clients that are held are passed by right, and U is larger by as much. *)
Definition passed_over (s : state) : Z :=
  match least (counter s) (ready s), least (counter s) (waiting s) with
  | Some m, Some n => mark m - mark n
  | _, _ => 0
  end.

Definition picked (j : job) (cached : Z) (rest : list job) (s : state) : state :=
  let u := owner j in
  let k := paid_up_to j (if by_chunk S then cached else prompt j) (predicted j) in
  let amount := billed k - billed j in
  let v := match least (counter s) (waiting s) with Some m => Z.max (virtual_time s) (mark m) | None => virtual_time s end in
  State (set (counter s) u (counter s u + amount)) (set (service s) u (service s u + amount))
        rest (k :: running s) (left_by u rest s) v
        (Z.max (certificate s) (amount + committed u (k :: running s) + passed_over s)) (picks s + 1).

Definition with_running (jobs : list job) (s : state) : state :=
  State (counter s) (service s) (waiting s) jobs (last_left s) (virtual_time s) (certificate s) (picks s).

Definition with_waiting (u : nat) (jobs : list job) (s : state) : state :=
  State (counter s) (service s) jobs (running s) (left_by u jobs s) (virtual_time s) (certificate s) (picks s).

(* --- what happens ------------------------------------------------------------------------------------------------ *)

Definition step (s : state) (e : event) : option state :=
  match e with
  | Arrive name u p most guess =>
      if (0 <=? p) && (0 <=? guess) && (guess <=? most)
      then Some (enter true (Job name u p most guess false 0 0 0 0) s) else None
  | Pick name cached =>
      match take name (waiting s) with
      | Some (j, rest) => if in_turn j s && admits S (running s) j then Some (picked j cached rest s) else None
      | None => None
      end
  | Compute name upto =>
      match take name (running s) with
      | Some (j, rest) => Some (charged j (paid_up_to j upto 0) rest s)
      | None => None
      end
  | Serve name =>
      match take name (running s) with
      | Some (j, rest) =>
          if (outputs j <? limit j) && (prompt j <=? paid_prompt j)
          then Some (charged j (with_one_more j) rest s) else None
      | None => None
      end
  | Finish name =>
      match take name (running s) with
      | Some (j, rest) => Some (settled j (with_running rest s))
      | None => None
      end
  | Withdraw name =>
      match take name (waiting s) with
      | Some (j, rest) => Some (settled j (with_waiting (owner j) rest s))
      | None => None
      end
  | Preempt name =>
      match take name (running s) with
      | Some (j, rest) => Some (enter (lifts_victims S) j (with_running rest s))
      | None => None
      end
  end.

Fixpoint run (s : state) (events : list event) : option state :=
  match events with
  | [] => Some s
  | e :: rest => match step s e with Some t => run t rest | None => None end
  end.

(* All through a run, its first and its last state included. *)
Fixpoint throughout (P : state -> Prop) (s : state) (events : list event) : Prop :=
  P s /\ match events with
         | [] => True
         | e :: rest => match step s e with Some t => throughout P t rest | None => True end
         end.

Definition reachable (s : state) : Prop := exists events, run initial events = Some s.

Definition got (u : nat) (s t : state) : Z := service t u - service s u.

End Step.

(* What all of these clients got. *)
Fixpoint all_got (clients : list nat) (s t : state) : Z :=
  match clients with [] => 0 | g :: others => got g s t + all_got others s t end.

(* Nothing costs less than nothing, and more never costs less. *)
Definition never_falls (f : Z -> Z) : Prop := forall a b, 0 <= a <= b -> f a <= f b.

Definition sensible (T : tariff) : Prop :=
  (forall u, 0 <= entry T u) /\ (forall u, never_falls (input T u)) /\ (forall u p, never_falls (output T u p)).

Definition equipped (S : scheduler) (Q B : Z) (at_the_head into_an_empty_queue victims floored : bool) : Prop :=
  sensible (costs S) /\ 0 <= credit S /\ quantum S = Q /\ 1 <= Q /\ (forall u, 0 <= burst S u <= B)
  /\ stops_at_the_head S = at_the_head /\ lifts_into_an_empty_queue S = into_an_empty_queue
  /\ lifts_victims S = victims /\ floors_refunds S = floored.

Definition switched (S : scheduler) : bool -> bool -> bool -> bool -> Prop := equipped S 1 0.

(* Algorithm 2 with all that the theorems ask of it; deficit round robin with quanta of Q; lanes with bursts up to B. *)
Definition sound (S : scheduler) : Prop := switched S true true true true.
Definition sound_in_quanta (S : scheduler) (Q : Z) : Prop := equipped S Q 0 true true true true.
Definition sound_in_lanes (S : scheduler) (B : Z) : Prop := equipped S 1 B true true true true.

Definition no_burst (_ : nat) : Z := 0.
Definition no_caps (_ _ : list job) (_ : nat) : bool := false.

(* w_p and w_q, times the client's price. *)
Definition linear (price : nat -> Z) (w_p w_q : Z) : tariff :=
  Tariff (fun _ => 0) (fun u n => price u * (w_p * n)) (fun u _ n => price u * (w_q * n)).

(* No aging, no bursts, no quanta, no caps. *)
Definition plain (T : tariff) (chunks : bool) (fits : list job -> job -> bool) : bool -> bool -> bool -> bool -> scheduler :=
  Scheduler T 0 0 no_burst 1 chunks fits no_caps.

(* --- caps of clients: on seats and on declared tokens, 0 being none ------------------------------------------------------ *)

Definition own (u : nat) (jobs : list job) : list job := filter (fun j => Nat.eqb (owner j) u) jobs.

Fixpoint declared (jobs : list job) : Z :=
  match jobs with [] => 0 | j :: rest => prompt j + limit j + declared rest end.

(* Ids are numbers in order of arrival. *)
Fixpoint oldest (jobs : list job) : option job :=
  match jobs with
  | [] => None
  | j :: rest => match oldest rest with Some k => if Nat.ltb (id j) (id k) then Some j else Some k | None => Some j end
  end.

(* Of whom nothing runs, it may: a cap on size holds up nobody for ever. *)
Definition at_a_cap (seats tokens : Z) (waiting running : list job) (u : nat) : bool :=
  match own u running, oldest (own u waiting) with
  | (_ :: _) as some, Some head =>
      ((0 <? seats) && (seats <=? Z.of_nat (length some))) || ((0 <? tokens) && (tokens <? declared (head :: some)))
  | _, _ => false
  end.
