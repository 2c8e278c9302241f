package chaos

import (
	"testing"

	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/test/servertest"
)

func TestMain(m *testing.M) {
	proctest.Main(m, proctest.Roles{
		servertest.RoleName: servertest.Role(nil),

		"store":        runStore,
		"pusher":       runPusher,
		"filler":       runFiller,
		"fulldisk":     runFullDisk,
		"refill":       runRefill,
		"refillstore":  runRefillStore,
		"poisonworker": runPoisonWorker,
		"topicworker":  runTopicWorker,
		"orderworker":  runOrderWorker,
		"ledgerworker": runLedgerWorker,
		"redisworker":  runRedisWorker,
		"redisguest":   runRedisGuest,
		"rediswaiter":  runRedisWaiter,
		"slowguest":    runSlowGuest,
		"upkeep":       runUpkeep,
		"smalldisk":    runSmallDisk,
		"tickfirer":    runTickFirer,
		"tickwaiter":   runTickWaiter,
	})
}
