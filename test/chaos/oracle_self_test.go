package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// TestOracleFindsEveryBreach plants a violation of each invariant into a correct history. The
// oracle must find all of them.
func TestOracleFindsEveryBreach(t *testing.T) {
	t.Parallel()
	n := duly.NewNumber()
	receipt := func(delivery uint64) string {
		return string(contract.ReceiptParts{Queue: "a", Number: n, Delivery: delivery}.Receipt())
	}
	push, pushed := "p 1000000 x a 500000 2 aa", "P 1001000 x created"
	first := fmt.Sprintf("D 1500000 1501000 %s x 1500 1500 2000 2 aa", receipt(1))
	nack, nacked := "s 1600000 "+receipt(1)+" nack", "S 1601000 "+receipt(1)+" ok"
	second := fmt.Sprintf("D 1700000 1701000 %s x 1700 1700 2200 2 aa", receipt(2))
	ack, acked := "s 1800000 "+receipt(2)+" ack", "S 1801000 "+receipt(2)+" ok"
	again := fmt.Sprintf("D 1850000 1851000 %s x 1500 1850 2350 2 aa", receipt(1)) // a crash has undone the calls between
	third := fmt.Sprintf("D 1900000 1901000 %s x 1500 1900 2400 2 aa", receipt(2))
	undone := trial{undone: []window{{1_600_000, 1_700_000}}}
	good := []string{push, pushed, first, nack, nacked, second, ack, acked}
	with := func(change func(lines []string) []string) []string { return change(slices.Clone(good)) }
	replace := func(old, new string) []string {
		return with(func(lines []string) []string { lines[slices.Index(lines, old)] = new; return lines })
	}
	add := func(more ...string) []string {
		return with(func(lines []string) []string { return append(lines, more...) })
	}
	for _, c := range []struct {
		breach, says string
		lines        []string
		trial        trial
	}{
		{breach: "none", lines: good},
		{breach: "none: an ack without an answer", lines: good[:7]},
		{breach: "lost", says: "I1", lines: []string{push, pushed}},
		{breach: "none: lost inside the window", lines: []string{push, pushed},
			trial: trial{undone: []window{{1_000_500, 2_000_000}}}},
		{breach: "lost before the window", says: "I1", lines: []string{push, pushed},
			trial: trial{undone: []window{{1_100_000, 2_000_000}}}},
		{breach: "resurrected", says: "I2", lines: add(fmt.Sprintf("D 2300000 2301000 %s x 1700 2300 2900 2 aa",
			receipt(3)))},
		{breach: "none: a settle that was accepted for the second of two deliveries with one receipt",
			lines: []string{push, pushed, first, "s 1900000 " + receipt(1) + " ack",
				"S 1901000 " + receipt(1) + " ok", fmt.Sprintf("D 1850000 1902000 %s x 1500 1850 2350 2 aa", receipt(1))},
			trial: trial{undone: []window{{1_600_000, 1_700_000}}}},
		{breach: "none: two primaries handed out a job in the same millisecond", lines: []string{push, pushed, first,
			"s 1600000 " + receipt(1) + " ack 2000", first, "s 1600500 " + receipt(1) + " ack 2000",
			"S 1601000 " + receipt(1) + " ok 2000", "S 1601500 " + receipt(1) + " ok 2000"},
			trial: trial{undone: []window{{1_400_000, 1_700_000}}}},
		{breach: "none: the first of two primaries answered after the second had handed out the job",
			lines: []string{push, pushed, first, "s 1600000 " + receipt(1) + " ack 2000", first,
				"S 1601000 " + receipt(1) + " ok 2000"},
			trial: trial{undone: []window{{1_400_000, 1_700_000}}}},
		{breach: "resurrected with one receipt", says: "I2", lines: []string{push, pushed, first,
			"s 1900000 " + receipt(1) + " ack",
			"S 1901000 " + receipt(1) + " ok", fmt.Sprintf("D 1903000 1904000 %s x 1500 1903 2400 2 aa", receipt(1))},
			trial: trial{undone: []window{{1_600_000, 1_700_000}}}},
		{breach: "accepted twice", says: "I3", lines: add("s 1900000 "+receipt(2)+" ack", "S 1901000 "+receipt(2)+" ok")},
		{breach: "a stale receipt accepted", says: "I3", lines: with(func(l []string) []string {
			return append([]string{push, pushed, first, second}, "s 1750000 "+receipt(1)+" nack", nacked, ack, acked)
		})},
		{breach: "overlap", says: "I4", lines: with(func(l []string) []string { return slices.Delete(l, 3, 5) })},
		{breach: "overlap after a refused nack", says: "I4", lines: replace(nacked, "S 1601000 "+receipt(1)+" lease_lost")},
		{breach: "none: a nack that was accepted for the second of two deliveries with one receipt",
			lines: []string{push, pushed, first, "s 1860000 " + receipt(1) + " nack",
				"S 1861000 " + receipt(1) + " ok", again, third, ack, acked}, trial: undone},
		{breach: "overlap after a nack of the first of two deliveries with one receipt", says: "I4",
			lines: []string{push, pushed, first,
				"s 1840000 " + receipt(1) + " nack", "S 1841000 " + receipt(1) + " ok", again, third, ack, acked}, trial: undone},
		{breach: "none: an extend that was accepted for the second of two deliveries with one receipt",
			lines: []string{push, pushed, first, "x 1860000 " + receipt(1) + " 10000",
				"X 1861000 " + receipt(1) + " ok", again, third, ack, acked}, trial: undone},
		{breach: "none: a stall", lines: []string{push, pushed, first,
			fmt.Sprintf("D 2000000 2001000 %s x 2000 2000 2500 2 aa", receipt(2)), ack, acked}},
		{breach: "overlap of an extended lease", says: "I4", lines: []string{push, pushed, first,
			"x 1550000 " + receipt(1) + " 900000", "X 1551000 " + receipt(1) + " ok",
			fmt.Sprintf("D 2000000 2001000 %s x 2000 2000 2500 2 aa", receipt(2)), ack, acked}},
		{breach: "early by the client's clock", says: "I5", lines: replace(first,
			fmt.Sprintf("D 1400000 1401000 %s x 1500 1500 2000 2 aa", receipt(1)))},
		{breach: "a due before its delay", says: "I5", lines: replace(first,
			fmt.Sprintf("D 1500000 1501000 %s x 1300 1500 2000 2 aa", receipt(1)))},
		{breach: "a delivery after a later one", says: "I7",
			lines: add(fmt.Sprintf("D 1750000 1751000 %s x 1700 1750 2200 2 aa", receipt(1)))},
		{breach: "deliveries that nobody heard of", says: "I7", lines: []string{push, pushed, second, ack, acked}},
		{breach: "none: a Reserve without an answer", lines: []string{push, pushed, "U 1400000 1500000", second, ack, acked}},
		{breach: "never pushed", says: "I10", lines: good[2:]},
		{breach: "wrong bytes", says: "I10", lines: replace(push, "p 1000000 x a 500000 2 bb")},
		{breach: "another queue", says: "I10", lines: replace(push, "p 1000000 x b 500000 2 aa")},
		{breach: "taken late", says: "I12", lines: good, trial: trial{calm: 1_100_000, slack: 500 * time.Microsecond}},
		{breach: "none: a nack of the first delivery under one receipt, and an ack of the second", trial: undone,
			lines: []string{push, pushed, first, again, "s 1860000 " + receipt(1) + " nack 2000",
				"s 1861000 " + receipt(1) + " ack 2350", "S 1862000 " + receipt(1) + " ok 2000",
				"S 1863000 " + receipt(1) + " lease_lost 2350", third, ack, acked}},
		{breach: "resurrected: an ack of the second delivery under one receipt", says: "I2", trial: undone,
			lines: []string{push, pushed, first, again, "s 1860000 " + receipt(1) + " nack 2000",
				"s 1861000 " + receipt(1) + " ack 2350", "S 1862000 " + receipt(1) + " lease_lost 2000",
				"S 1863000 " + receipt(1) + " ok 2350", third, ack, acked}},
		{breach: "a client's error", says: "error", lines: add("error push: internal")},
	} {
		h := newHistory()
		h.read(c.lines)
		v := h.judge(c.trial)
		h.weigh(c.trial, v)
		found := strings.Join(h.faults, "\n")
		if c.says == "" && found != "" || !strings.HasPrefix(found, c.says) {
			t.Errorf("%s: the oracle says %q, want %q", c.breach, found, c.says)
		}
	}
}
