package chaos

import (
	"testing"

	"github.com/dulymq/duly/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{
		"store":       runStore,
		"pusher":      runPusher,
		"filler":      runFiller,
		"fulldisk":    runFullDisk,
		"orderworker": runOrderWorker,
		"redisworker": runRedisWorker,
		"redisguest":  runRedisGuest,
		"rediswaiter": runRedisWaiter,
	})
}
