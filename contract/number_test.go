package contract_test

import (
	"bytes"
	"hash/crc32"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestNumberHasTheTextFormOfAULID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]duly.Number{
		"00000000000000000000000000": {},
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		"00000000000000000000000001": {15: 1},
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": {0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3, 0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b},
	} {
		got, ok := duly.ParseNumber(text)
		if !ok || got != want {
			t.Errorf("%s is read as %x (%t), want %x", text, got, ok, want)
		}
		if want.String() != text {
			t.Errorf("%x is written %s, want %s", want, want, text)
		}
	}
}

func TestNumberRefusesOtherText(t *testing.T) {
	t.Parallel()
	good := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, text := range []string{
		"", "0", good[:25], good + "0", strings.ToLower(good), "8" + good[1:], "Z" + good[1:], good[:25] + "I", good[:25] + "L",
		good[:25] + "O", good[:25] + "U", good[:25] + "-", " " + good[1:], good[:25] + "\x00", "01ARZ3NDEKTSV4RRFFQ69G5Fä",
	} {
		if n, ok := duly.ParseNumber(text); ok {
			t.Errorf("%q is read as %x", text, n)
		}
	}
}

// C6.2: the numbers of one process increase, even across goroutines.
func TestNumbersRise(t *testing.T) {
	t.Parallel()
	const routines, each = 8, 5000
	lists := make([][]duly.Number, routines)
	var wg sync.WaitGroup
	for i := range lists {
		wg.Go(func() {
			for range each {
				lists[i] = append(lists[i], duly.NewNumber())
			}
		})
	}
	wg.Wait()
	seen := map[duly.Number]bool{}
	for _, list := range lists {
		for i, n := range list {
			if i > 0 && bytes.Compare(list[i-1][:], n[:]) >= 0 {
				t.Fatalf("%s came after %s", n, list[i-1])
			}
			if i > 0 && list[i-1].String() >= n.String() {
				t.Fatalf("the text %s came after %s", n, list[i-1])
			}
			seen[n] = true
		}
	}
	if len(seen) != routines*each {
		t.Errorf("%d numbers are different of %d", len(seen), routines*each)
	}
}

// C11.8: a number is never a counter: the part after the time can't be guessed from the number
// before.
func TestNumbersAreRandomBehindTheTime(t *testing.T) {
	t.Parallel()
	ends, last := map[string]int{}, [256]int{}
	for range 4096 {
		n := duly.NewNumber()
		ends[string(n[11:])]++
		last[n[15]]++
	}
	if len(ends) != 4096 {
		t.Errorf("%d of 4096 numbers end differently", len(ends))
	}
	for b, count := range last {
		if count > 60 { // the mean is 16
			t.Errorf("the last byte is %d in %d of 4096 numbers", b, count)
		}
	}
}

// C6.17: jobs with the same key share a shard, whatever numbers they get.
func TestMadeIDCarriesTheShardOfItsKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job duly.Job
		key string
	}{
		{duly.Job{OrderKey: "customer-17"}, "customer-17"},
		{duly.Job{Merge: duly.Merge{Key: "invoice"}}, "invoice"},
		{duly.Job{OrderKey: "customer-17", Merge: duly.Merge{Key: "invoice"}}, "customer-17"},
	} {
		want := byte(crc32.ChecksumIEEE([]byte(c.key)))
		for range 20 {
			n, ok := duly.ParseNumber(duly.MakeID(&c.job))
			if !ok || n[11] != want {
				t.Fatalf("the ID of %+v has byte 11 = %d, want %d", c.job, n[11], want)
			}
		}
	}
	byBody := duly.Job{Body: []byte("b"), Merge: duly.Merge{Mode: duly.MergeKeep}}
	if a, b := duly.MakeID(&byBody), duly.MakeID(&byBody); contract.ShardOf(a, 256) != contract.ShardOf(b, 256) {
		t.Error("two jobs that merge by equal bodies are in two shards")
	}
	shards := map[int]bool{}
	for range 200 {
		shards[contract.ShardOf(duly.MakeID(&duly.Job{}), 256)] = true
	}
	if len(shards) < 50 {
		t.Errorf("200 jobs without keys are in %d of 256 shards", len(shards))
	}
}

// C6.16: only the ID of a job decides its shard.
func TestShardIsReadFromTheID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id           string
		shards, want int
	}{
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", 256, 0xb9},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", 16, 0x9},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 0},
		{"123456789", 256, 0x26}, // CRC-32 (IEEE) of 123456789 is cbf43926
		{"123456789", 16, 6},
		{"123456789", 1, 0},
		// Not a ULID, because it is in lower case.
		{"01arz3ndektsv4rrffq69g5fav", 256, int(crc32.ChecksumIEEE([]byte("01arz3ndektsv4rrffq69g5fav")) % 256)},
	} {
		if got := contract.ShardOf(c.id, c.shards); got != c.want {
			t.Errorf("%s is in shard %d of %d, want %d", c.id, got, c.shards, c.want)
		}
	}
}

// The time of a number is the time at which it was created, so lists by number are sorted by time.
func TestNumberBeginsWithItsTime(t *testing.T) {
	t.Parallel()
	n := duly.NewNumber()
	ms := int64(n[0])<<40 | int64(n[1])<<32 | int64(n[2])<<24 | int64(n[3])<<16 | int64(n[4])<<8 | int64(n[5])
	if off := time.Since(time.UnixMilli(ms)); off < -time.Minute || off > time.Minute {
		t.Errorf("%s says %s", n, time.UnixMilli(ms))
	}
}

func FuzzParseNumber(f *testing.F) {
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	f.Add("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := duly.ParseNumber(text)
		if ok && n.String() != text {
			t.Fatalf("%q is read as %s", text, n)
		}
		if !ok && n != (duly.Number{}) {
			t.Fatalf("%q is refused and read as %x", text, n)
		}
	})
}
