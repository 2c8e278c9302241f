package contract_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// C8.3, C8.4, C8.5, C8.6: every engine computes the same delays. The expected values were computed
// by another program from the text of the contract.
func TestBackoffMatchesReferenceValues(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/backoff.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		n, err1 := strconv.Atoi(f[2])
		ms, err2 := strconv.ParseInt(f[3], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if got := contract.BackoffDelay(duly.Backoff(f[0]), f[1], n); got != time.Duration(ms)*time.Millisecond {
			t.Errorf("%s of %.20s after failure %d is %s, want %d ms", f[0], f[1], n, got, ms)
		}
		rows++
	}
	if rows < 100 {
		t.Errorf("the table has %d rows", rows)
	}
}

// C8.5: the cap comes before the jitter, which is at most a tenth.
func TestBackoffJitterStaysWithinATenth(t *testing.T) {
	t.Parallel()
	var low, high int
	for n := 1; n <= 5000; n++ {
		d := contract.BackoffDelay(duly.Backoff("exp:1s:1s"), "job", n)
		if d < 900*time.Millisecond || d > 1100*time.Millisecond {
			t.Fatalf("the delay after failure %d is %s", n, d)
		}
		if d < 950*time.Millisecond {
			low++
		}
		if d > 1050*time.Millisecond {
			high++
		}
	}
	if low < 1000 || high < 1000 {
		t.Errorf("of 5000 delays %d lie in the lowest quarter and %d in the highest: that is no jitter", low, high)
	}
}

func TestEmptyBackoffUsesTheDefault(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		want := contract.BackoffDelay(duly.DefaultBackoff, "x", n)
		for _, b := range []duly.Backoff{"", "no policy"} {
			if got := contract.BackoffDelay(b, "x", n); got != want {
				t.Errorf("%q waits %s after failure %d, want %s as the default does", b, got, n, want)
			}
		}
	}
	if contract.BackoffDelay(duly.DefaultBackoff, "x", 0) != contract.BackoffDelay(duly.DefaultBackoff, "x", 1) {
		t.Error("failure 0 does not wait as the first")
	}
}

// C8.2: a policy has the same text in code, configuration and API.
func TestBackoffTextIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want duly.Backoff }{
		{duly.Fixed(0), "fixed:0s"},
		{duly.Fixed(90 * time.Second), "fixed:1m30s"},
		{duly.Exponential(time.Second, time.Hour), "exp:1s:1h"},
		{duly.Exponential(250*time.Millisecond, 90*24*time.Hour), "exp:250ms:90d"},
		{duly.Staircase(15*time.Second, 3*time.Minute, 15*time.Hour), "15s,3m,15h"},
		{duly.Staircase(time.Second), "1s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
		if err := contract.ValidateBackoff(c.got); err != nil {
			t.Errorf("%q: %v", c.got, err)
		}
	}
}

func TestBackoffRefusesInvalidPolicies(t *testing.T) {
	t.Parallel()
	for _, text := range []duly.Backoff{
		" ", "x", "5", "fixed", "fixed:", "fixed:x", "fixed:-1s", "fixed:1s,2s", "fixed:1s:2s", "fixed:367d", "fixed:1us", "fixed:1.5ms",
		"exp:", "exp:1s", "exp:1s:", "exp::1s", "exp:0s:1s", "exp:2s:1s", "exp:1s:1h:1d", "exp:1s,1h", "EXP:1s:1h", ",", "1s,", ",1s",
		"1s,,2s", "1s;2s", "1s -1s", duly.Backoff(strings.Repeat("1s,", 64) + "1s"), duly.Backoff(strings.Repeat("9", 100_000)),
	} {
		err := contract.ValidateBackoff(text)
		if !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%.40q is answered %v", text, err)
			continue
		}
		if len(err.Error()) > 300 {
			t.Errorf("the error for %.40q has %d bytes", text, len(err.Error()))
		}
	}
	if err := contract.ValidateBackoff(duly.Backoff(strings.Repeat("1s,", 63) + "1s")); err != nil {
		t.Errorf("64 steps: %v", err)
	}
}

func FuzzBackoff(f *testing.F) {
	for _, text := range []string{"", "fixed:5s", "exp:1s:1h", "15s,3m,10m", "fixed:", "exp:1ms:366d", "1d1ms,0s", "9223372036854775807ns"} {
		f.Add(text, "id", 1)
	}
	f.Fuzz(func(t *testing.T, text, id string, n int) {
		b := duly.Backoff(text)
		err := contract.ValidateBackoff(b)
		if err != nil && !errors.Is(err, duly.ErrInvalid) {
			t.Fatalf("%q is answered %v", text, err)
		}
		d := contract.BackoffDelay(b, id, n)
		if d < 0 || d > duly.MaxBackoffDelay*11/10 || d%time.Millisecond != 0 {
			t.Fatalf("%q waits %s", text, d)
		}
		if d != contract.BackoffDelay(b, id, n) {
			t.Fatalf("%q waits differently the second time", text)
		}
	})
}

// C10.8: the token bucket's arithmetic.
func TestBucketRefillsByTheRate(t *testing.T) {
	t.Parallel()
	r := duly.Rate{PerSecond: 2, Burst: 3}
	b := contract.Bucket{}.Fill(r, 1000)
	if n := b.Free(r); n != 3 {
		t.Fatalf("a new bucket has %d, want the burst", n)
	}
	b = b.Take(3)
	if n, at := b.Free(r), b.OpensAt(r); n != 0 || at != 1500 {
		t.Errorf("an empty bucket has %d and opens at %d, want 0 and 1500", n, at)
	}
	for _, c := range []struct {
		at   int64
		want int
	}{{1499, 0}, {1500, 1}, {1999, 1}, {2000, 2}, {9000, 3}} {
		if n := b.Fill(r, c.at).Free(r); n != c.want {
			t.Errorf("at %d it has %d, want %d", c.at, n, c.want)
		}
	}
}

// C5.6: after the clock was set back, the bucket refills nothing.
func TestBucketSurvivesAClockThatStepsBack(t *testing.T) {
	t.Parallel()
	r := duly.Rate{PerSecond: 1, Burst: 1}
	b := contract.Bucket{}.Fill(r, 1_000_000).Take(1).Fill(r, 1000)
	if n := b.Free(r); n != 0 {
		t.Errorf("after a step back the bucket has %d", n)
	}
	if n := b.Fill(r, 2000).Free(r); n != 1 {
		t.Errorf("a second later it has %d, want 1", n)
	}
}

func TestBucketOpensAtTheReportedTime(t *testing.T) {
	t.Parallel()
	for _, r := range []duly.Rate{
		{PerSecond: 3}, {PerSecond: 0.1}, {PerSecond: 0.001, Burst: 1}, {PerSecond: 7, Burst: 1},
		{PerSecond: 1e6, Burst: 1e6},
	} {
		now := int64(1_900_000_000_000)
		b := contract.Bucket{}.Fill(r, now)
		b = b.Take(b.Free(r))
		at := b.OpensAt(r)
		if before := b.Fill(r, at-1).Free(r); before != 0 {
			t.Errorf("%+v: at %d there are %d already", r, at-1, before)
		}
		if n := b.Fill(r, at).Free(r); n < 1 {
			t.Errorf("%+v: it was to open at %d and has %d", r, at, n)
		}
	}
}

// C10.8: a bucket that became smaller misses at most its new size, and the refill counts from there. So
// it opens at the reported time, also if nothing is stored until then.
func TestSmallerBucketOpensAtTheReportedTime(t *testing.T) {
	t.Parallel()
	const now = 1_900_000_000_000
	b := contract.Bucket{}.Fill(duly.Rate{PerSecond: 2, Burst: 10}, now).Take(10)
	r := duly.Rate{PerSecond: 2, Burst: 3}
	if at := b.Fill(r, now).OpensAt(r); at != now+500 {
		t.Errorf("it opens after %d ms, want 500", at-now)
	}
	for after, want := range map[int64]int{0: 0, 499: 0, 500: 1, 999: 1, 1000: 2, 9000: 3} {
		if n := b.Fill(r, now+after).Free(r); n != want {
			t.Errorf("after %d ms it has %d, want %d", after, n, want)
		}
	}
}

// C4.117, C4.118: the tokens of several buckets add up, and the next token is the earliest of them.
func TestTokensAddUp(t *testing.T) {
	t.Parallel()
	r, now := duly.Rate{PerSecond: 2, Burst: 3}, int64(1_900_000_000_000)
	full := contract.Bucket{}.Fill(r, now)
	empty, later := full.Take(3), full.Take(4)
	none := duly.Rate{PerSecond: duly.None}
	at := func(ms int64) time.Time { return clock.FromMilli(now + ms) }

	for i, c := range []struct {
		buckets []contract.Bucket
		rate    duly.Rate
		tokens  int64
		next    time.Time
	}{
		{nil, r, duly.None, time.Time{}},
		{[]contract.Bucket{full, empty}, none, duly.None, time.Time{}},
		{[]contract.Bucket{full}, r, 3, time.Time{}},
		{[]contract.Bucket{empty}, r, 0, at(500)},
		{[]contract.Bucket{empty, full}, r, 3, time.Time{}},
		{[]contract.Bucket{full, empty, full}, r, 6, time.Time{}},
		{[]contract.Bucket{later, empty}, duly.Rate{PerSecond: 2, Burst: 4}, 1, time.Time{}},
	} {
		st := duly.Stats{Tokens: duly.None}
		for _, b := range c.buckets {
			tokens, next := b.Tokens(c.rate, now)
			contract.AddTokens(&st, tokens, next)
		}
		if st.Tokens != c.tokens || !st.NextToken.Equal(c.next) {
			t.Errorf("case %d: %d tokens, the next at %s, want %d and %s", i, st.Tokens, st.NextToken, c.tokens, c.next)
		}
	}

	// The shards of a queue may have tokens at different times, in any order.
	for _, times := range [][]int64{{200, 500}, {500, 200}} {
		st := duly.Stats{Tokens: duly.None}
		for _, ms := range times {
			contract.AddTokens(&st, 0, at(ms))
		}
		contract.AddTokens(&st, duly.None, time.Time{})
		if st.Tokens != 0 || !st.NextToken.Equal(at(200)) {
			t.Errorf("%v: %d tokens, the next at %s, want 0 and %s", times, st.Tokens, st.NextToken, at(200))
		}
	}
}

// The error of a bad policy repeats the part that is wrong.
func TestBackoffSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"exp:5": `"exp:5" needs two delays`, "exp:5s": `"exp:5s" needs two delays`,
		"exp:1s:1h:2h": `"exp:1s:1h:2h" needs two delays`, "exp:": "needs two delays",
		"fixed:1s,2s": `"fixed:1s,2s" needs one delay`, "fixed:": `"" is not a delay`,
		"often": `"often" is not a delay`, "exp:1:5": `"1" is not a delay`,
		"exp:1h:1s": "the first delay must be at least 1ms and at most the cap", strings.Repeat("1s,", 200) + "1s": "has 201 steps",
	} {
		err := contract.ValidateBackoff(duly.Backoff(text))
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}
