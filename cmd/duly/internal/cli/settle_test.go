package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// failing is an engine of which every settle but the first fails.
type failing struct {
	contract.Engine
	settles int
}

func (f *failing) Settle(_ context.Context, _ string, outcomes []duly.SettleRequest) ([]error, error) {
	if f.settles++; f.settles > 1 {
		return nil, duly.ErrUnavailable
	}
	return make([]error, len(outcomes)), nil
}

// After an error, ack prints the number of jobs that it settled before.
func TestAckPrintsCountBeforeError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stdin = strings.Repeat("receipt\n", duly.MaxBatch+1)
	var out, errs strings.Builder
	env := r.env(&out, &errs, "ack", "-")
	env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) {
		return &failing{Engine: unclosable{r.engine}}, nil
	}
	if code := Run(t.Context(), env); code != exitFailed || out.String() != "acked "+plural(duly.MaxBatch, "job")+"\n" ||
		!strings.Contains(errs.String(), "unavailable") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}
