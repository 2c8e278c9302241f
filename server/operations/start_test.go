package operations

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/operations/record"
)

// C14.90: a bad start names every bad field, starts nothing and repeats no long or strange text.
func TestBadStarts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		long := strings.Repeat("x", 1<<20)
		many := make([]string, duly.MaxBatch+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for _, tt := range []struct {
			fields string
			n      contract.NewOperation
		}{
			{"kind", contract.NewOperation{Queue: "mail"}},
			{"kind", contract.NewOperation{Kind: contract.OperationKind(long), Queue: "mail", IDs: []string{"a"}}},
			{"queue kind", contract.NewOperation{Kind: "\x00", Queue: "a/../b"}},
			{"queue", contract.NewOperation{Kind: "requeue", Queue: long}},
			{"queue", contract.NewOperation{Kind: "requeue", Queue: "a\x00b"}},
			{"queue", contract.NewOperation{Kind: "requeue", Queue: "päckchen"}},
			{"group", contract.NewOperation{Kind: "requeue", Queue: "mail", Group: "../../etc/passwd"}},
			{"group", contract.NewOperation{Kind: "requeue", Queue: "mail", Group: long}},
			{"group", contract.NewOperation{Kind: "requeue", Queue: "mail", Group: diskFull, IDs: []string{"a"}}},
			{"group", contract.NewOperation{Kind: "promote", Queue: "mail", Group: diskFull}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail", IDs: []string{"a", "b/c"}}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail", IDs: []string{long}}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail", IDs: []string{"a", "b", "a"}}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail", IDs: many}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail"}},
			{"ids", contract.NewOperation{Kind: "delete", Queue: "mail", State: duly.StateDead}},
			{"ids", contract.NewOperation{Kind: "purge", Queue: "mail", State: duly.StateDead, IDs: []string{"a"}}},
			{"state", contract.NewOperation{Kind: "purge", Queue: "mail"}},
			{"state", contract.NewOperation{Kind: "requeue", Queue: "mail", State: duly.StateDone}},
			{"state", contract.NewOperation{Kind: "promote", Queue: "mail", State: duly.StateReady}},
			{"state", contract.NewOperation{Kind: "delete", Queue: "mail", Group: diskFull, State: duly.StateReady}},
			{"rate", contract.NewOperation{Kind: "requeue", Queue: "mail", Rate: -1}},
			{"rate", contract.NewOperation{Kind: "requeue", Queue: "mail", Rate: math.NaN()}},
			{"rate", contract.NewOperation{Kind: "requeue", Queue: "mail", Rate: math.Inf(1)}},
			{"rate", contract.NewOperation{Kind: "requeue", Queue: "mail", Rate: 1e7}},
			{"tries rate", contract.NewOperation{Kind: "requeue", Queue: "mail", Tries: -1, Rate: 1e-9}},
			{"ttl", contract.NewOperation{Kind: "requeue", Queue: "topic@group", TTL: time.Hour}},
			{"canary.jobs canary.then", contract.NewOperation{Kind: "requeue", Queue: "mail",
				Canary: &contract.OperationCanary{Jobs: -1, Then: long}}},
			{"canary.jobs", contract.NewOperation{Kind: "requeue", Queue: "mail",
				Canary: &contract.OperationCanary{Jobs: record.MaxSample + 1}}},
			{"kind", contract.NewOperation{Kind: "purge", Queue: "mail", State: duly.StateDead, Tries: 3}},
			{"kind", contract.NewOperation{Kind: "promote", Queue: "mail", Canary: &contract.OperationCanary{}}},
		} {
			_, err := r.Start(mail.Namespace, tt.n, ada)
			var e *duly.Error
			if e, _ = err.(*duly.Error); e == nil || e.Code != duly.CodeInvalid || len(e.Error()) > 1000 {
				t.Errorf("%.80v returns %.200v", tt.n, err)
				continue
			}
			var fields []string
			for _, f := range e.Fields {
				fields = append(fields, f.Field)
			}
			if got := strings.Join(fields, " "); got != tt.fields {
				t.Errorf("%.80v has the bad fields %s, want %s", tt.n, got, tt.fields)
			}
		}
		if len(r.States()) != 0 || len(r.engine.calls) != 0 {
			t.Errorf("the states are %v after the calls %v", r.States(), r.engine.calls)
		}
		if _, err := r.Start("bad/namespace", contract.NewOperation{Kind: "requeue", Queue: "mail"}, ada); err == nil {
			t.Error("a bad namespace was accepted")
		}
	})
}

// C14.90: an operation is found only in its namespace, and only by its ID.
func TestUnknownOperations(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id := r.begin(contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateDead}).ID
		for _, of := range [][2]string{
			{"other", id}, {mail.Namespace, ""}, {mail.Namespace, "../" + id}, {mail.Namespace, strings.Repeat("x", 1<<20)},
			{mail.Namespace, "a\x00"}, {mail.Namespace, duly.NewNumber().String()},
		} {
			_, err := r.Get(of[0], of[1])
			_, err2 := r.Stop(t.Context(), of[0], of[1], "ada")
			_, err3 := r.Continue(of[0], of[1], "ada")
			for _, err := range []error{err, err2, err3} {
				if duly.CodeOf(err) != duly.CodeNotFound || len(err.Error()) > 1000 {
					t.Errorf("%.40q returns %.200v", of, err)
				}
			}
		}
		for _, p := range []duly.PageParams{{Cursor: "x"}, {Limit: -1}, {Limit: 1001}, {Cursor: "../" + id}} {
			if _, _, err := r.List(mail.Namespace, p); duly.CodeOf(err) != duly.CodeInvalid {
				t.Errorf("the page %+v returns %v", p, err)
			}
		}
		if list, _, err := r.List("other", duly.PageParams{}); len(list) != 0 || err != nil {
			t.Errorf("another namespace has %v, %v", list, err)
		}
	})
}
