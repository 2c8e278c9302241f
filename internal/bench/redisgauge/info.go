package redisgauge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/bench"
)

// infoOf reads sections of a server's INFO.
func infoOf(ctx context.Context, client rueidis.Client, sections ...string) (map[string]string, error) {
	text, err := client.Do(ctx, client.B().Info().Section(sections...).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("INFO: %w", err)
	}
	return parseInfo(text), nil
}

// parseInfo parses lines of name:value.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			info[name] = value
		}
	}
	return info
}

// scripts are the commands that run a script or a function. A server without functions has no
// counts of function calls.
var scripts = []string{"evalsha", "eval", "fcall", "fcall_ro", "evalsha_ro", "eval_ro"}

// read reads one server's counters.
func (s server) read(ctx context.Context) (r bench.Reading, err error) {
	info, err := infoOf(ctx, s.client, "cpu", "memory", "commandstats")
	if err != nil {
		return r, err
	}
	if r.Scripts.Within, err = s.histogram(ctx); err != nil {
		return r, err
	}

	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		spent, err := seconds(info[name])
		if err != nil {
			return r, fmt.Errorf("%s of INFO cpu is %q: this needs Redis 6.2 or later, on Linux or BSD", name, info[name])
		}
		r.CPU += spent
	}

	if r.Memory, err = strconv.ParseInt(info["used_memory"], 10, 64); err != nil {
		return r, fmt.Errorf("used_memory in the answer to INFO is %q, want a number", info["used_memory"])
	}
	for _, name := range scripts {
		calls, spent := parseStat(info["cmdstat_"+name])
		r.Scripts.Count += calls
		r.Scripts.Time += spent
	}

	return r, nil
}

// seconds parses a number of seconds, precise to the microsecond.
func seconds(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	return time.Duration(s*1e6+0.5) * time.Microsecond, err
}

// parseStat parses a line of commandstats: calls=…,usec=…,…
func parseStat(text string) (calls int64, spent time.Duration) {
	for field := range strings.SplitSeq(text, ",") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "calls":
			calls, _ = strconv.ParseInt(value, 10, 64)
		case "usec":
			us, _ := strconv.ParseInt(value, 10, 64)
			spent = time.Duration(us) * time.Microsecond
		}
	}
	return calls, spent
}

// histogram returns the server's LATENCY HISTOGRAM of the scripts: for each limit, how many calls
// took no longer. Limits that no call reached are left out.
func (s server) histogram(ctx context.Context) (map[time.Duration]int64, error) {
	answer, err := s.client.Do(ctx, s.client.B().LatencyHistogram().Command(scripts...).Build()).AsMap()
	if err != nil {
		return nil, fmt.Errorf("LATENCY HISTOGRAM: %w", err)
	}

	sum := bench.Timings{}
	for _, of := range answer {
		command, err := of.AsMap()
		if err != nil {
			return nil, fmt.Errorf("LATENCY HISTOGRAM: %w", err)
		}
		counts := command["histogram_usec"]
		pairs, err := counts.AsIntSlice()
		if err != nil {
			return nil, fmt.Errorf("LATENCY HISTOGRAM: %w", err)
		}
		if len(pairs)%2 != 0 {
			return nil, fmt.Errorf("LATENCY HISTOGRAM returns %d values, want pairs", len(pairs))
		}
		one := bench.Timings{Within: map[time.Duration]int64{}}
		for pair := range slices.Chunk(pairs, 2) {
			one.Within[time.Duration(pair[0])*time.Microsecond] = pair[1]
		}
		sum = sum.Plus(one)
	}

	return sum.Within, nil
}
