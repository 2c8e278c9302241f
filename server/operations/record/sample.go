package record

import (
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// MaxSample is the largest sample of requeued jobs.
const MaxSample = 500

// Sample has every Stride-th of the requeued jobs.
type Sample struct {
	IDs    []string `json:",omitempty"`
	Stride int      `json:",omitempty"`
	Seen   int      `json:",omitempty"`
}

// Add adds a requeued job. A sample that is full keeps every second job.
func (s *Sample) Add(id string) {
	s.Stride = max(s.Stride, 1)
	if s.Seen++; (s.Seen-1)%s.Stride != 0 {
		return
	}
	if len(s.IDs) < MaxSample {
		s.IDs = append(s.IDs, id)
		return
	}

	half := make([]string, 0, MaxSample)
	for i := 0; i < len(s.IDs); i += 2 {
		half = append(half, s.IDs[i])
	}
	s.IDs, s.Stride = append(half, id), 2*s.Stride
}

// Verdict is what became of a sample.
type Verdict struct{ Jobs, Succeeded, Failed int }

// Judge looks at the jobs of a sample. A job has succeeded if it is done or gone, and failed if it is dead again.
func Judge(ctx context.Context, e contract.Inspector, q duly.QueueRef, ids []string) (v Verdict, err error) {
	if v.Jobs = len(ids); v.Jobs == 0 {
		return v, nil
	}
	results, err := e.GetJobs(ctx, q, ids, false)
	if err != nil {
		return v, err
	}
	for i := range results {
		r := &results[i]
		switch {
		case duly.CodeOf(r.Err) == duly.CodeNotFound, r.Err == nil && r.Info.State == duly.StateDone:
			v.Succeeded++
		case r.Err == nil && r.Info.State == duly.StateDead:
			v.Failed++
		}
	}
	return v, nil
}

// TooMany returns why an operation stops, "" if it continues: more than 20 % of the jobs are dead again.
func (v Verdict) TooMany() string {
	if v.Failed*5 <= v.Jobs {
		return ""
	}
	return fmt.Sprintf("%d of %d requeued jobs that were looked at are dead again, which is more than 20 %%",
		v.Failed, v.Jobs)
}

// Canary returns what a requeue does after its canary: it stops with a reason, or goes on.
func (v Verdict) Canary(then string) (reason string, goOn bool) {
	if reason := v.TooMany(); reason != "" {
		return "canary: " + reason, false
	}
	if then != contract.CanaryContinue {
		return "", false
	}
	if v.Failed*10 > v.Jobs {
		return fmt.Sprintf("canary: %d of %d jobs are dead again, so less than 90 %% can succeed", v.Failed, v.Jobs), false
	}
	return "", v.Succeeded*10 >= v.Jobs*9
}
