package record

import (
	"fmt"
	"testing"
)

// A sample has evenly spread jobs, of any number.
func TestSampleIsBoundedAndEven(t *testing.T) {
	t.Parallel()
	s := Sample{}
	for i := range 100_000 {
		s.Add(fmt.Sprint(i))
		if len(s.IDs) > MaxSample || i >= MaxSample && len(s.IDs) < MaxSample/2 {
			t.Fatalf("%d jobs after %d", len(s.IDs), i)
		}
	}
	for i, id := range s.IDs {
		if want := fmt.Sprint(i * s.Stride); id != want {
			t.Fatalf("job %d is %s, want %s", i, id, want)
		}
	}
}
