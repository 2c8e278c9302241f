package lmstfyimport

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Source is a Redis with data of lmstfy.
type Source struct{ client rueidis.Client }

// Open connects to redis://, rediss:// or redis+unix://. With ?master_set=NAME the hosts are those of
// Sentinel.
func Open(ctx context.Context, url string) (*Source, error) {
	option, err := rueidis.ParseURL(strings.Replace(url, "redis+unix://", "unix://", 1))
	if err != nil {
		// The text of err may contain the password.
		return nil, contract.Invalid("from", "is not a URL of Redis; write it like redis://:PASSWORD@HOST:6379/0")
	}
	// The import reads each value once.
	option.DisableCache, option.ForceSingleClient = true, option.Sentinel.MasterSet == ""
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, failed(err)
	}
	s := &Source{client}
	// An unreachable server should fail here, not in the middle of the import.
	if _, err := s.do(ctx, "PING").ToString(); err != nil {
		client.Close()
		return nil, failed(err)
	}
	return s, nil
}

// Close closes the connection.
func (s *Source) Close() { s.client.Close() }

// failed converts an error of the source to an error of the contract.
func failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if redis, ok := rueidis.IsRedisErr(err); ok {
		code := duly.CodeUnavailable
		// A wrong password has its own error code, because trying again is useless.
		if strings.HasPrefix(redis.Error(), "NOAUTH") || strings.HasPrefix(redis.Error(), "WRONGPASS") {
			code = duly.CodeUnauthorized
		}
		return &duly.Error{Code: code, Message: "lmstfy's Redis refuses: " + firstLine(redis.Error()), Cause: err}
	}
	return &duly.Error{Code: duly.CodeUnavailable, Message: "lmstfy's Redis was not reached", Cause: err}
}

// unexpected returns the error for an answer that does not have the form of the command's answers.
func unexpected(command string) error {
	return contract.Errorf(duly.CodeUnavailable, "lmstfy's Redis answers %s in an unknown form; check that the URL points to a Redis",
		command)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (s *Source) command(words ...string) rueidis.Completed {
	return s.client.B().Arbitrary(words...).Build()
}

func (s *Source) do(ctx context.Context, words ...string) rueidis.RedisResult {
	return s.client.Do(ctx, s.command(words...))
}

func (s *Source) size(ctx context.Context, command, key string) (int64, error) {
	n, err := s.do(ctx, command, key).AsInt64()
	return n, failed(err)
}

// now returns the time of the source's clock.
func (s *Source) now(ctx context.Context) (time.Time, error) {
	parts, err := s.do(ctx, "TIME").AsStrSlice()
	if err != nil {
		return time.Time{}, failed(err)
	}
	if len(parts) != 2 {
		return time.Time{}, unexpected("TIME")
	}
	seconds, err1 := strconv.ParseInt(parts[0], 10, 64)
	micros, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil {
		return time.Time{}, unexpected("TIME")
	}
	return time.Unix(seconds, micros*1000), nil
}

// fields returns the fields of a hash, sorted.
func (s *Source) fields(ctx context.Context, key string) ([]string, error) {
	all, err := s.do(ctx, "HGETALL", key).AsStrMap()
	return slices.Sorted(maps.Keys(all)), failed(err)
}

// scan calls page for each page of a key (ZSCAN, HSCAN) or of the names of keys (SCAN).
func (s *Source) scan(
	ctx context.Context, command []string, options []string, page func(items []string) error,
) error {
	for cursor := "0"; ; {
		words := append(append(slices.Clone(command), cursor), options...)
		parts, err := s.do(ctx, words...).ToArray()
		if err != nil {
			return failed(err)
		}

		if len(parts) != 2 {
			return unexpected(command[0])
		}
		if cursor, err = parts[0].ToString(); err != nil {
			return failed(err)
		}

		items, err := parts[1].AsStrSlice()
		if err != nil {
			return failed(err)
		}
		// Cursor 0 marks the last page.
		if err := page(items); err != nil || cursor == "0" {
			return err
		}
	}
}

// tokens returns the descriptions of a pool's tokens, by namespace and text.
func (s *Source) tokens(ctx context.Context, pool string) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	prefix := "tk/" + pool + "/"

	err := s.scan(ctx, []string{"SCAN"}, []string{"MATCH", "tk/*", "COUNT", "1000"}, func(keys []string) error {
		for _, key := range keys {
			namespace, ok := strings.CutPrefix(key, prefix)
			// SCAN may return a key twice.
			if !ok || all[namespace] != nil {
				continue
			}
			tokens, err := s.do(ctx, "HGETALL", key).AsStrMap()
			if err != nil {
				return failed(err)
			}
			all[namespace] = tokens
		}
		return nil
	})
	return all, err
}

// limiter has a token's limits in the form of lmstfy.
type limiter struct {
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Interval int64 `json:"interval"`
}

// limits returns the limits of a pool's tokens, by NAMESPACE/TOKEN. Limits that can't be read are
// returned as invalid limits.
func (s *Source) limits(ctx context.Context, pool string) (map[string]contract.Limits, error) {
	stored, err := s.do(ctx, "HGETALL", "__throttler_keys__").AsStrMap()
	if err != nil {
		return nil, failed(err)
	}

	all := map[string]contract.Limits{}
	for key, text := range stored {
		of, ok := strings.CutPrefix(key, pool+"/")
		if !ok {
			continue
		}
		var l limiter
		if json.Unmarshal([]byte(text), &l) != nil {
			all[of] = contract.Limits{Consume: -1}
			continue
		}
		limits := contract.Limits{Consume: int(max(0, l.Read)), Produce: int(max(0, l.Write))}
		if limits != (contract.Limits{}) {
			// An interval without limits would be invalid.
			limits.Per = time.Duration(l.Interval) * time.Second
		}
		all[of] = limits
	}

	return all, nil
}

// stored is the value of a job's own key.
type stored struct {
	text string
	ttl  time.Duration // remaining ttl; 0 means no ttl
	gone bool
}

// read reads the jobs' own keys.
func (s *Source) read(ctx context.Context, namespace, queue string, entries []entry) ([]stored, error) {
	commands := make([]rueidis.Completed, 0, 2*len(entries))
	for _, e := range entries {
		key := "j/" + namespace + "/" + queue + "/" + e.id
		commands = append(commands, s.command("GET", key), s.command("PTTL", key))
	}

	answers := s.client.DoMulti(ctx, commands...)
	jobs := make([]stored, len(entries))
	for i := range jobs {
		text, err := answers[2*i].ToString()
		if rueidis.IsRedisNil(err) {
			jobs[i].gone = true
			continue
		}
		if err != nil {
			return nil, failed(err)
		}

		ms, err := answers[2*i+1].AsInt64()
		if err != nil {
			return nil, failed(err)
		}
		// PTTL returns -2 if the key expired after the GET.
		jobs[i] = stored{text: text, gone: ms == -2 || ms == 0}
		if ms > 0 {
			jobs[i].ttl = time.Duration(ms) * time.Millisecond
		}
	}

	return jobs, nil
}
