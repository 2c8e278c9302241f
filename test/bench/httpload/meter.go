package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/bench/redisgauge"
)

// metered runs the load. It reads what the server and Redis have used before and after it.
func metered(ctx context.Context, o options) (result, error) {
	var gauge *redisgauge.Gauge
	if o.redis != "" {
		var err error
		if gauge, err = redisgauge.Open(ctx, o.redis); err != nil {
			return result{}, err
		}
		defer gauge.Close()
	}

	before, err := o.read(ctx, gauge)
	if err != nil {
		return result{}, err
	}
	r, err := load(ctx, o)
	if err != nil {
		return r, err
	}
	after, err := o.read(ctx, gauge)
	if err != nil {
		return r, err
	}

	perJob := func(d time.Duration) float64 {
		return float64(d) / float64(time.Microsecond) / float64(r.Requests)
	}
	r.ServerCPU = perJob(after.server - before.server)
	r.RedisCPU = perJob(after.redis.CPU - before.redis.CPU)
	r.ScriptTime = perJob(after.redis.Scripts.Time - before.redis.Scripts.Time)
	r.ScriptCalls = float64(after.redis.Scripts.Count-before.redis.Scripts.Count) / float64(r.Requests)
	return r, nil
}

// usage is what the server and Redis have used since they started.
type usage struct {
	server time.Duration
	redis  bench.Reading
}

// read reads the usage of both. gauge is nil without Redis.
func (o *options) read(ctx context.Context, gauge *redisgauge.Gauge) (u usage, err error) {
	if o.pid != 0 {
		if u.server, err = cpuOf(o.pid); err != nil {
			return u, err
		}
	}
	if gauge != nil {
		u.redis, err = gauge.Read(ctx)
	}
	return u, err
}

// tick is the unit of times in /proc. It is the same on every Linux that Go supports.
const tick = time.Second / 100

// cpuOf returns the CPU time that a process and its threads have used.
func cpuOf(pid int) (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}

	// The second field is the program's name in parentheses, which may contain any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("%s can't be read", name)
	}
	u, err := strconv.ParseInt(string(fields[user]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	s, err := strconv.ParseInt(string(fields[system]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return time.Duration(u+s) * tick, nil
}
