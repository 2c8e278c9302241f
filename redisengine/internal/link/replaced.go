package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/internal/clock"
)

// A server may hang with its connections open, and be replaced meanwhile. The client library stays
// connected to it. Behind Sentinels it first asks the old primary for its role. In a cluster it
// reads the owners of slots only when a connection breaks. Calls would hang until a ping times out.
// If the old server continues earlier, it answers although it is no longer the primary.
//
// The watchdog therefore asks other servers whether a silent server was replaced. Only then does it
// close the connections to that server.

// watchdogEvery is the interval at which the watchdog looks for silent connections. It sends
// nothing if there are none.
const watchdogEvery = time.Second

// watchdog detects servers that hang.
type watchdog struct{ *core }

// run looks for servers that hang until the link is closed.
func (l *watchdog) run() {
	for clock.Sleep(l.life, l.clock, watchdogEvery) == nil {
		for _, addr := range l.dialer.silent() {
			if l.isReplaced(addr) {
				l.log.Warn("redis: a server hangs and was replaced as primary; closing its connections", "server", addr)
				l.dialer.avoid(addr)
			}
		}
	}
}

// isReplaced reports whether another server says that the server at addr is no longer a primary.
func (l *watchdog) isReplaced(addr string) bool {
	others := slices.Collect(maps.Keys(l.main.Nodes()))
	ask := l.primariesOf
	if l.o.Mode == Sentinel {
		others, ask = l.o.Addrs, l.primaryOf
	}
	for _, other := range others {
		// The silent server can't say itself that it was replaced.
		if other == addr {
			continue
		}
		// The other server may hang as well, and must not block the watchdog.
		ctx, cancel := context.WithTimeout(l.life, silence)
		primaries, err := ask(ctx, other)
		cancel()
		// The first answer decides; without any, the server is kept.
		if err == nil {
			return !slices.Contains(primaries, addr)
		}
	}
	return false
}

// primariesOf returns the primaries of a cluster as a node sees them.
func (l *watchdog) primariesOf(ctx context.Context, node string) (addrs []string, err error) {
	client := l.main.Nodes()[node]
	if client == nil {
		return nil, rueidis.ErrNoSlot
	}

	ranges, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err == nil && len(ranges) == 0 {
		err = errors.New("the node answered CLUSTER SLOTS without any slot")
	}

	for i := range ranges {
		fields, _ := ranges[i].ToArray()
		if len(fields) < 3 {
			continue
		}
		primary, _ := fields[2].ToArray()
		if len(primary) < 2 {
			continue
		}
		host, _ := primary[0].ToString()
		port, _ := primary[1].AsInt64()
		// The node does not know its own host.
		if host == "" {
			host, _, _ = net.SplitHostPort(node)
		}
		addrs = append(addrs, net.JoinHostPort(host, fmt.Sprint(port)))
	}

	return addrs, err
}

// primaryOf returns the primary that a Sentinel names.
func (l *watchdog) primaryOf(ctx context.Context, sentinel string) ([]string, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{sentinel}, DialCtxFn: l.dialer.dial, TLSConfig: l.tls,
		ForceSingleClient: true, DisableRetry: true, DisableCache: true,
		Username: l.o.Sentinel.User, Password: l.o.Sentinel.Password, ReadBufferEachConn: 4 << 10,
		WriteBufferEachConn: 4 << 10, RingScaleEachConn: 3,
	}

	option.Dialer.Timeout = silence
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	place, err := client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(l.o.Sentinel.Master).Build()).AsStrSlice()
	if err == nil && len(place) != 2 {
		err = fmt.Errorf("the Sentinel knows no primary %s; check the name in the URL", l.o.Sentinel.Master)
	}
	if err != nil {
		return nil, err
	}

	return []string{net.JoinHostPort(place[0], place[1])}, nil
}
