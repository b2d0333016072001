// Linear judges histories of counters with porcupine.
//
// It reads one JSON history a line from standard input, and answers "ok", "illegal" or "unknown".
// A state is a count and what is owed: what operations took that failed, and are giving back.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type op struct {
	Kind  string `json:"kind"`
	N     int    `json:"n"`
	Value int    `json:"value"`
	Call  int64  `json:"call"`
	Ret   int64  `json:"ret"`
}

type history struct {
	Initial int  `json:"initial"`
	Seconds int  `json:"seconds"`
	Ops     []op `json:"ops"`
}

type state struct{ count, owed int }

// A latch counts down and stops at 0. A semaphore takes only what is there. An event is 0 or 1.
func step(s state, o op) []interface{} {
	same := []interface{}{s}
	none := []interface{}{}
	either := func(next state) []interface{} { return []interface{}{s, next} }
	switch o.Kind {
	case "take":
		if s.count >= o.N {
			return []interface{}{state{s.count - o.N, s.owed}}
		}
		return none
	case "refused":
		if s.count < o.N {
			return same
		}
		return none
	case "put":
		return []interface{}{state{s.count + o.N, s.owed}}
	case "read":
		if s.count == o.Value {
			return same
		}
		return none
	case "maybe-put":
		return either(state{s.count + o.N, s.owed})
	case "maybe-take":
		if s.count >= o.N {
			return either(state{s.count - o.N, s.owed})
		}
		return same
	case "borrow":
		if s.count >= o.N {
			return either(state{s.count - o.N, s.owed + o.N})
		}
		return same
	case "give-back":
		if s.owed >= o.N {
			return either(state{s.count + o.N, s.owed - o.N})
		}
		return same
	case "set":
		if s.count == 0 {
			return []interface{}{state{o.N, 0}}
		}
		return none
	case "not-set":
		if s.count > 0 {
			return same
		}
		return none
	case "maybe-set":
		if s.count == 0 {
			return either(state{o.N, 0})
		}
		return same
	case "down":
		if s.count > 0 {
			return []interface{}{state{s.count - 1, 0}}
		}
		return same
	case "maybe-down":
		if s.count > 0 {
			return either(state{s.count - 1, 0})
		}
		return same
	case "raise":
		return []interface{}{state{1, 0}}
	case "lower":
		return []interface{}{state{0, 0}}
	case "maybe-raise":
		return either(state{1, 0})
	case "maybe-lower":
		return either(state{0, 0})
	case "open":
		if s.count == 0 {
			return same
		}
		return none
	}
	panic("unknown operation " + o.Kind)
}

func judge(h history) porcupine.CheckResult {
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{state{h.Initial, 0}} },
		Step: func(s, input, _ interface{}) []interface{} { return step(s.(state), input.(op)) },
	}
	operations := make([]porcupine.Operation, len(h.Ops))
	for i, o := range h.Ops {
		operations[i] = porcupine.Operation{ClientId: i, Input: o, Call: o.Call, Return: o.Ret}
	}
	limit := time.Duration(h.Seconds) * time.Second
	return porcupine.CheckOperationsTimeout(model.ToModel(), operations, limit)
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var h history
		if err := json.Unmarshal(line, &h); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		switch judge(h) {
		case porcupine.Ok:
			fmt.Println("ok")
		case porcupine.Illegal:
			fmt.Println("illegal")
		default:
			fmt.Println("unknown")
		}
	}
}
