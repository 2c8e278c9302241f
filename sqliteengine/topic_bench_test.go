package sqliteengine_test

import (
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine"
)

// messages returns n messages with bodies of 100 bytes.
func messages(n int) []duly.Message {
	ms := make([]duly.Message, n)
	for i := range ms {
		ms[i] = duly.Message{Topic: "events", Body: make([]byte, 100)}
	}
	return ms
}

func publishItem(b *testing.B, e *sqliteengine.Engine, ms []duly.Message) {
	results, err := e.Publish(b.Context(), ms)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range results {
		if r.Status != duly.Created {
			b.Fatalf("publish returned %v, %v", r.Status, r.Err)
		}
	}
}

func BenchmarkPublishBatchesOf100(b *testing.B) {
	e := openBench(b)
	ms := messages(100)
	b.ResetTimer()
	for left := b.N; left > 0; left -= 100 {
		publishItem(b, e, ms[:min(left, 100)])
	}
	perSecond(b, "messages")
}

func BenchmarkGroupReserveAndAckBatchesOf100(b *testing.B) {
	e := openBench(b)
	if _, err := e.CreateGroup(b.Context(), duly.Q("events@mailer"), duly.FromStart); err != nil {
		b.Fatal(err)
	}
	ms := messages(1000)
	for left := b.N; left > 0; left -= len(ms) {
		publishItem(b, e, ms[:min(left, len(ms))])
	}
	b.ResetTimer()
	reserveAndAck(b, e, "events@mailer")
	perSecond(b, "messages")
}
