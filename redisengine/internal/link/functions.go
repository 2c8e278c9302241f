package link

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// libraries manages libraries of Redis Functions.
type libraries struct{ *checks }

// Provide loads the libraries on every node, unless scripts are sent by EVAL. If that fails, it
// returns [duly.ErrForbidden] or [duly.ErrUnsupported] under [Functions]. Under [Auto] it logs the
// reason and scripts are sent by EVAL. It is called before the first call.
//
// A node that is down now, joins later or loses its functions later does not make Provide fail. The
// first call that finds no function there loads its library again.
func (l *libraries) Provide(ctx context.Context, libraries ...*Library) error {
	if l.o.Scripts == Eval {
		return nil
	}

	err := l.mayUseFunctions(ctx)
	if err == nil {
		err = l.loadAll(ctx, libraries)
	}
	switch code := duly.CodeOf(err); {
	case err == nil:
		l.functions = true
	// Other errors may be temporary, so the caller decides what to do.
	case code != duly.CodeForbidden && code != duly.CodeUnsupported:
		return err
	case l.o.Scripts == Functions:
		return err
	default:
		l.log.Warn(
			"redis: functions can't be used, so scripts are sent by EVAL, which costs the server more time; scripts=eval "+
				"in the URL silences this",
			slog.String("setting", "scripts"), slog.String("server", l.where()), slog.String("error", err.Error()),
		)
	}
	return nil
}

// mayUseFunctions returns [duly.ErrForbidden] if the user may not load or call
// functions.
func (l *libraries) mayUseFunctions(ctx context.Context) error {
	key := l.o.Prefix + ":{check}"
	lacking, err := l.lacking(ctx, [][]string{
		{"function", "load", ""}, {"fcall", "f", "1", key}, {"fcall_ro", "f", "1", key},
	})
	if err != nil || len(lacking) == 0 {
		return err
	}
	return &duly.Error{Code: duly.CodeForbidden, Message: fmt.Sprintf(
		"redis at %s: the server's user may not use functions (%s); grant them: ACL SETUSER USER +function|load +fcall "+
			"+fcall_ro",
		l.where(), strings.Join(lacking, ", "))}
}

// loadAll loads libraries on all nodes. Replicas get the libraries from their primaries. If a node
// did not answer, the first call to it loads the libraries.
func (l *libraries) loadAll(ctx context.Context, libraries []*Library) error {
	var named sync.Map // names of libraries that were already logged
	var taken atomic.Pointer[duly.Error]
	err := l.onNodes(ctx, "FUNCTION LOAD", func(ctx context.Context, client rueidis.Client) error {
		for _, library := range libraries {
			err := client.Do(ctx, library.load(client.B())).Error()
			switch {
			case err == nil:
			case areNamesTaken(err):
				// Calls would run the functions of the other library.
				taken.Store(l.namesTaken(err))
			// Libraries of other versions have other names, so a library with this name has the
			// same text.
			case !isLoaded(err):
				return err
			case !isForeign(ctx, client, library):
			default:
				if _, reported := named.LoadOrStore(library.Name, true); !reported {
					l.warnForeign(library.Name)
				}
			}
		}
		return nil
	})
	if other := taken.Load(); err == nil && other != nil {
		return other
	}
	return err
}

// namesTaken returns the error for another library that has the names of duly's functions.
func (l *libraries) namesTaken(err error) *duly.Error {
	return &duly.Error{Code: duly.CodeUnsupported, Cause: err, Message: fmt.Sprintf(
		"redis at %s: another library has a function of duly's name (%s); find it with FUNCTION LIST and remove it on "+
			"every primary: FUNCTION DELETE NAME", l.where(), cause(err))}
}

// isForeign reports whether a node has a library with this name and another text. It returns
// false if the user may not read libraries.
func isForeign(ctx context.Context, client rueidis.Client, library *Library) bool {
	entries, err := client.Do(ctx, client.B().FunctionList().Libraryname(library.Name).Withcode().Build()).ToArray()
	if err != nil {
		return false
	}
	for i := range entries {
		fields, err := entries[i].AsMap()
		if err != nil {
			return false
		}
		code := fields["library_code"]
		if text, err := code.ToString(); err == nil && text != library.Source {
			return true
		}
	}
	return false
}

// warnForeign logs that another program's library has the name of one of duly's. Calls then can't
// load duly's library.
func (l *libraries) warnForeign(name string) {
	l.log.Warn("redis: a library with another text has the name of a library of duly, so every call sends its script "+
		"by EVAL, "+
		"which costs the server more time; remove it on every primary: FUNCTION DELETE "+name,
		slog.String("setting", "scripts"), slog.String("server", l.where()), slog.String("library", name))
}

// UsesFunctions reports whether scripts are called as functions.
func (l *libraries) UsesFunctions() bool { return l.functions }

// Libraries returns the names of all libraries, on any node, that begin with the prefix. It skips
// nodes that do not answer.
func (l *libraries) Libraries(ctx context.Context, prefix string) ([]string, error) {
	var (
		mu  sync.Mutex
		all []string
	)

	err := l.onNodes(ctx, "FUNCTION LIST", func(ctx context.Context, client rueidis.Client) error {
		entries, err := client.Do(ctx, client.B().FunctionList().Libraryname(prefix+"*").Build()).ToArray()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range entries {
			fields, err := entries[i].AsMap()
			if err != nil {
				return err
			}
			name := fields["library_name"]
			text, err := name.ToString()
			if err != nil {
				return err
			}
			all = append(all, text)
		}
		return nil
	})

	// Each node lists the same libraries, so most names appear several times.
	slices.Sort(all)
	return slices.Compact(all), err
}

// RemoveLibrary removes a library from all nodes that answer. Replicas follow their primaries.
func (l *libraries) RemoveLibrary(ctx context.Context, name string) error {
	return l.onNodes(ctx, "FUNCTION DELETE", func(ctx context.Context, client rueidis.Client) error {
		return client.Do(ctx, client.B().FunctionDelete().LibraryName(name).Build()).Error()
	})
}

// nodeWait is how long a node has to answer about its libraries. A node that does not answer in
// time is skipped, because no call depends on the answer.
const nodeWait = 2 * time.Second

// onNodes calls do for all nodes concurrently. It returns an error only if the user lacks the
// right, or a server does not know the command.
func (l *libraries) onNodes(ctx context.Context, call string, do func(context.Context, rueidis.Client) error) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for _, client := range l.main.Nodes() {
		wg.Go(func() {
			err := do(ctx, client)
			if err == nil {
				return
			}
			if v := verdictOf(err); v.code == duly.CodeForbidden || v.code == duly.CodeUnsupported {
				mu.Lock()
				first = l.fault(call, v, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return first
}
