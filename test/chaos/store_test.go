package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine"
)

// theQueue is the queue of every load on a store.
var theQueue = duly.Q("load")

func openStore(path string) (*sqliteengine.Engine, error) {
	return openStoreAs(path, sqliteengine.SyncFull)
}

func openStoreAs(path string, s sqliteengine.Synchronous) (*sqliteengine.Engine, error) {
	return sqliteengine.Open(context.Background(), sqliteengine.Config{
		Path: path, Synchronous: s, Logger: slog.New(slog.DiscardHandler),
	})
}

// runStore opens the store and works on it until it is killed. Its args are the path, a seed and
// the synchronous setting.
func runStore(args []string) error {
	begun := time.Now()
	engine, err := openStoreAs(args[0], sqliteengine.Synchronous(args[2]))
	if err != nil {
		fmt.Println("refused:", err) // printed, because the test does not read errors
		return err
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	l := &load{engine: engine, diary: &diary{out: os.Stdout}, shape: shape{
		queues: []string{theQueue.Name}, pushers: 4, workers: 4, batch: 20, backlog: 2000, body: 2000, delays: 0.1,
		delay: 200 * time.Millisecond,
		lease: 300 * time.Millisecond,
	}}
	l.diary.say("open %d", time.Since(begun).Milliseconds())
	l.run(context.Background(), context.Background(), seed) // returns never: the test kills the process
	return nil
}
