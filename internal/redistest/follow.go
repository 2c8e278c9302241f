package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// following returns an error if a server does not follow the primary.
func following(ctx context.Context, primary *process, all []*Server) error {
	var errs []error
	var replicas []string
	for _, one := range all {
		want := fmt.Sprintf("[slave %s connected ", place(primary.known()))
		if one.p == primary {
			want = "[master "
		} else {
			replicas = append(replicas, one.p.known())
		}
		role, err := one.Do(ctx, "ROLE")
		if err == nil && !strings.HasPrefix(fmt.Sprint(role), want) {
			err = fmt.Errorf("%s has the role %v, want %s…", one.Addr(), role, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, acknowledging(ctx, primary, replicas))...)
}

// acknowledging returns an error if a replica has not yet acknowledged data to the primary. A
// replica reports itself as connected after the initial transfer. It gets later writes only after
// its first acknowledgement, up to a second later. A replica that takes over before that would lack
// the writes.
func acknowledging(ctx context.Context, primary *process, replicas []string) error {
	role, err := primary.do(ctx, "ROLE")
	if err != nil {
		return err
	}
	fields := role.([]any)
	if fields[0] != "master" {
		return fmt.Errorf("%s has the role %v, want master", primary.address(), fields)
	}

	var following []string
	for _, entry := range fields[2].([]any) {
		// An offset of 0 means that the replica has not acknowledged anything.
		if r := entry.([]any); r[2] != "0" {
			following = append(following, net.JoinHostPort(r[0].(string), r[1].(string)))
		}
	}

	for _, one := range replicas {
		if !slices.Contains(following, one) {
			return fmt.Errorf("%s does not list its replica %s: %v", primary.address(), one, fields)
		}
	}
	return nil
}
