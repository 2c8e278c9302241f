package store

import (
	"slices"

	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/lua"
)

// Script is a script and the keys that it needs.
type Script struct {
	*link.Script
	Keys   []string
	Places []int // indexes of the keys in ShardKeys
	All    bool  // whether the keys are all of ShardKeys, in their order
}

func load(name string) *Script {
	loaded, keys := LoadAny(name)
	s := &Script{Script: loaded, Keys: keys, All: slices.Equal(keys, ShardKeys[:])}
	for _, key := range keys {
		s.Places = append(s.Places, slices.Index(ShardKeys[:], key))
	}
	return s
}

// LoadAny returns a script and the names of its keys.
func LoadAny(name string) (*link.Script, []string) {
	l := lua.Load(name)
	s := link.NewScript(l.Name, l.Source, l.ReadOnly)
	s.Takes = l.Takes
	s.Library, s.Function = functionLibrary(l.Library), l.Function
	return s, l.Keys
}

// FunctionLibraries holds the libraries that contain the engine's scripts as functions.
var FunctionLibraries = func() (all []*link.Library) {
	for _, l := range lua.Libraries() {
		all = append(all, &link.Library{Name: l.Name, Source: l.Source})
	}
	return all
}()

// LibrariesOfOpen returns the libraries that a process loads when it opens. The first call of
// another library loads it.
func LibrariesOfOpen() (basic []*link.Library) {
	for i, l := range lua.Libraries() {
		if l.Basic {
			basic = append(basic, FunctionLibraries[i])
		}
	}
	return basic
}

// functionLibrary returns the link's copy of a library.
func functionLibrary(l *lua.Library) *link.Library {
	at := slices.IndexFunc(FunctionLibraries, func(f *link.Library) bool { return f.Name == l.Name })
	return FunctionLibraries[at]
}

// These are the scripts of shards and lists.
var (
	ScriptPush      = load("push")
	ScriptReserve   = load("reserve")
	ScriptSettle    = load("settle")
	ScriptExtend    = load("extend")
	ScriptStep      = load("step")
	ScriptGet       = load("get")
	ScriptPeek      = load("peek")
	ScriptList      = load("list")
	ScriptOrderKeys = load("order_keys")
	ScriptStats     = load("stats")
	ScriptExplain   = load("explain")
	ScriptLook      = load("look")
	ScriptDelete    = load("delete")
	ScriptPromote   = load("promote")
	ScriptUpdate    = load("update")
	ScriptRequeue   = load("requeue")
	ScriptPurge     = load("purge")
	ScriptConfigure = load("configure")
	ScriptDestroy   = load("destroy")
	ScriptQueuePut  = load("queue_put")
	ScriptQueueSet  = load("queue_set")
	ScriptMark      = load("mark")
	ScriptSlow      = load("slow")

	ScriptSchedulePut  = load("schedule_put")
	ScriptScheduleSet  = load("schedule_set")
	ScriptScheduleDrop = load("schedule_drop")
	ScriptScheduleGet  = load("schedule_get")
	ScriptScheduleList = load("schedule_list")
	ScriptScheduleFire = load("schedule_fire")

	ScriptCheckSchedules = load("check_schedules")
	ScriptCheckSchedule  = load("check_schedule")

	ScriptHolding    = load("holding")
	ScriptOverdue    = load("overdue")
	ScriptIdle       = load("idle")
	ScriptCheckList  = load("check_list")
	ScriptCheckPage  = load("check_page")
	ScriptCheckJob   = load("check_job")
	ScriptCheckEntry = load("check_entry")
	ScriptCheckShard = load("check_shard")
)

// OwnLibraryNames returns the names of this version's libraries.
func OwnLibraryNames() (names []string) {
	for _, l := range FunctionLibraries {
		names = append(names, l.Name)
	}
	return names
}
