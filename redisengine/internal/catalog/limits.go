package catalog

import (
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// packLimits packs one shard's part of the limits, as include/limits.lua reads them.
func packLimits(c duly.QueueConfig, i int) string {
	def := contract.DefaultQueueConfig()
	// Default limits are the scripts' own, so an empty text saves the parsing.
	if !c.Paused && c.MaxJobs == duly.None && c.MaxLeased == duly.None && !c.Rate.Limited() &&
		c.DeadAge == def.DeadAge && c.DeadCount == def.DeadCount && c.Shards == 1 {
		return ""
	}

	var w codec.Packer
	w.Array(9)
	packQueueLimits(&w, c, i)
	return string(w)
}

// packQueueLimits packs the fields that include/limits.lua reads.
func packQueueLimits(w *codec.Packer, c duly.QueueConfig, i int) {
	part := contract.ConfigOfShard(c, i)
	paused := int64(0)
	if c.Paused {
		paused = 1
	}

	w.Integer(paused)
	w.Integer(int64(part.MaxJobs))
	w.Integer(int64(part.MaxLeased))
	// Lua converts a string to a number without rounding the fraction.
	rate := strconv.Itoa(duly.None)
	if c.Rate.Limited() {
		rate = strconv.FormatFloat(part.Rate.PerSecond, 'g', -1, 64)
	}

	w.Text(rate)
	w.Integer(int64(part.Rate.Burst))
	w.Integer(codec.MillisOrNone(c.DeadAge))
	w.Integer(int64(part.DeadCount))
	w.Integer(int64(contract.ShardPart(duly.MaxDone, c.Shards, i)))
	if c.Adapt.Adaptive() {
		w.Text(strconv.FormatFloat(c.Adapt.Floor, 'g', -1, 64))
	} else {
		w.No()
	}
}

// packGroup packs one shard's part of a group's limits, as include/group_head.lua reads them.
func packGroup(t duly.TopicConfig, c duly.QueueConfig, i int) string {
	var w codec.Packer
	w.Array(23)
	packQueueLimits(&w, c, i)
	// A shard with a part of 0 would never deliver, so each shard gets at least 1.
	w.Integer(int64(max(1, contract.ShardPart(c.Group.MaxHeld, c.Shards, i))))
	w.Bool(c.Group.Order == duly.OrderKeys)
	packFilter(&w, c.Group.Filter)
	w.Integer(int64(c.Defaults.Tries))
	w.Integer(int64(c.Defaults.MaxStalls))
	w.Text(codec.ShortBackoff(c.Defaults.Backoff))
	w.Integer(codec.Micros(c.Defaults.Lease))
	w.Integer(codec.MillisOrNone(c.Group.Idle))
	packRetention(&w, t, i, c.Group.Idle != duly.None)
	return string(w)
}

// packFilter packs names and values alternately. It packs false for no filter.
func packFilter(w *codec.Packer, f duly.Filter) {
	conditions, err := contract.FilterConditions(f)
	// The filter was validated before, so the error is impossible.
	if err != nil || len(conditions) == 0 {
		w.No()
		return
	}
	w.Array(2 * len(conditions))
	for _, c := range conditions {
		w.Text(c.Name)
		w.Text(c.Value)
	}
}

// packRetention packs the fields that bind_retention in include/log.lua reads.
func packRetention(w *codec.Packer, t duly.TopicConfig, i int, idle bool) {
	w.Integer(codec.MillisOrNone(t.Keep))
	w.Integer(codec.MillisOrNone(t.MaxAge))
	w.Integer(int64(contract.ShardPart(t.MaxCount, t.Shards, i)))
	w.Integer(int64(contract.ShardPart(int(t.MaxBytes), t.Shards, i)))
	w.Bool(t.Overflow == duly.OverflowDrop)
	w.Bool(idle || t.Keep > 0 || t.MaxAge > 0 || t.MaxCount > 0 || t.MaxBytes > 0)
}
