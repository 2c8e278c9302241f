package contract_test

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// C18.3, C18.4, C18.5: the later end wins, and brings its reason.
func TestClosingKeepsTheLaterEnd(t *testing.T) {
	t.Parallel()
	now := clock.Epoch.Add(500 * time.Microsecond)
	ms := clock.Epoch.UnixMilli()
	var c contract.Closing
	for _, tt := range []struct {
		after, slow time.Duration
		reason      string
		want        contract.Closing
	}{
		{0, 0, "zero", contract.Closing{}},
		// Rounded up, so the closing never ends early.
		{0, time.Second, "a", contract.Closing{Until: ms + 1001, Reason: "a"}},
		{0, 999 * time.Millisecond, "b", contract.Closing{Until: ms + 1001, Reason: "a"}},
		{0, time.Second, "equal", contract.Closing{Until: ms + 1001, Reason: "a"}},
		{500 * time.Millisecond, 0, "zero", contract.Closing{Until: ms + 1001, Reason: "a"}},
		{500 * time.Millisecond, time.Second, "c", contract.Closing{Until: ms + 1501, Reason: "c"}},
		{2 * time.Second, 0, "over", contract.Closing{}},
	} {
		if c = c.Extend(tt.slow, tt.reason, now.Add(tt.after)); c != tt.want {
			t.Errorf("%s after %s gives %+v, want %+v", tt.slow, tt.after, c, tt.want)
		}
	}
}

// C18.6: a clock that steps back leaves an hour.
func TestClosingLastsAnHourAtMost(t *testing.T) {
	t.Parallel()
	hour := duly.MaxSlow.Milliseconds()
	c := contract.Closing{Until: 10 * hour, Reason: "r"}
	for _, tt := range []struct{ now, want int64 }{
		{10 * hour, 0}, {10*hour - 1, 10 * hour}, {9 * hour, 10 * hour}, {9*hour - 1, 10*hour - 1}, {hour, 2 * hour},
	} {
		if got := c.Clip(tt.now).Until; got != tt.want {
			t.Errorf("at %d it ends at %d, want %d", tt.now, got, tt.want)
		}
	}
}

// C18.7: the releases are those earlier deliveries that were neither failures nor stalls.
func TestSlowIsANackAfterAThousandReleases(t *testing.T) {
	t.Parallel()
	slow := time.Second
	request := duly.SettleRequest{As: duly.Release, Slow: &slow, Error: "429"}
	for _, tt := range []struct {
		delivery uint64
		want     duly.Settlement
	}{{1, duly.Release}, {1005, duly.Release}, {1006, duly.Nack}} {
		got := contract.BoundSlow(request, tt.delivery, 3, 2)
		if got.As != tt.want || got.Error != "429" || (got.Slow == nil) != (tt.want == duly.Nack) {
			t.Errorf("delivery %d is settled as %+v, want %s", tt.delivery, got, tt.want)
		}
	}
	if got := contract.BoundSlow(duly.SettleRequest{As: duly.Release}, 5000, 0, 0); got.As != duly.Release {
		t.Errorf("a release without slow is settled as %s", got.As)
	}
}
