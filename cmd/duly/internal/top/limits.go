package top

import (
	"math"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// LimitText describes the limits that a queue enforces now, such as "37 % of 100/s". It returns ""
// if they do not adapt.
func LimitText(s *duly.Stats, t contract.Throttle) string {
	if s.Factor == 0 {
		return ""
	}
	var limits []string
	if t.Rate.Limited() {
		limits = append(limits, strconv.FormatFloat(t.Rate.PerSecond, 'f', -1, 64)+"/s")
	}
	if t.MaxLeased > 0 {
		limits = append(limits, strconv.Itoa(t.MaxLeased)+" leased")
	}
	return percent(s.Factor) + " of " + strings.Join(limits, " and ")
}

// percent returns a share in percent. It is rounded down, so that only the whole share is 100 %.
func percent(share float64) string {
	// The tolerance keeps a rounding error, such as that of 0.29 · 100, from losing a percent.
	n := 100*share + 1e-9
	if n < 10 {
		return strconv.FormatFloat(math.Floor(n*10)/10, 'f', -1, 64) + " %"
	}
	return strconv.Itoa(int(n)) + " %"
}
