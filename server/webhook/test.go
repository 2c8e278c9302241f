package webhook

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/webhook/outcome"
	"github.com/dulymq/duly/server/webhook/sign"
)

// TestEvent is the type of a test request, and the name of its queue.
const TestEvent = "duly.test"

// Tested is the result of a test request.
type Tested struct {
	// Status is the status of the answer; 0 without an answer.
	Status int
	// As is the settlement that a job with this answer would get.
	As duly.Settlement
	// Error is the error text of a job with this answer, if As is nack or bury.
	Error string
	Took  time.Duration
	// WebhookID is the header webhook-id of the request.
	WebhookID string
}

// Test sends a signed request of the type [TestEvent] to a destination, even if its gate is
// closed. The answer has no effect on the gate.
func (s *Sender) Test(ctx context.Context, namespace string, to *Destination) (Tested, error) {
	now := s.Clock.Now().UTC()
	body, _ := json.Marshal(map[string]any{ // marshaling a map of strings never fails
		"type": TestEvent, "namespace": namespace, "target": to.Target, "at": now.Format(dueForm),
	})
	d := &duly.Delivery{Attempt: 1, Now: now}
	d.Namespace, d.Queue, d.ID, d.Tries, d.Due = namespace, TestEvent, duly.NewNumber().String(), 1, now
	d.Body, d.Headers = body, map[string]string{headerType: "application/json"}
	j := Job{Namespace: namespace, WebhookID: sign.ID(namespace, TestEvent, d.ID, false), Delivery: d}

	header, err := s.signed(j, to)
	if err != nil {
		return Tested{}, err
	}
	t := s.try(ctx, j, to, header)
	if t == nil {
		return Tested{}, ctx.Err()
	}

	t.Host, t.Named, t.Private = to.URL.Host, to.Target != "", privateTexts(to)
	t.Success, t.Permanent = to.Success, to.Permanent
	decision := outcome.Decide(*t)
	return Tested{
		Status: decision.Status, As: decision.As, Error: decision.Error, Took: t.Took, WebhookID: j.WebhookID,
	}, nil
}
