package wire

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func TestMovesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	moves := []duly.MoveState{
		{Placement: duly.Placement{Namespace: "shop", Pool: "orders", From: "default", Phase: duly.Draining, Since: time.UnixMilli(1234567890123).UTC()}, Queues: 3, Left: duly.Sizes{Ready: 5, Dead: 7}},
		{Placement: duly.Placement{Namespace: "a", Pool: "default"}},
	}
	got, err := ReadMoves(string(AppendMoves(nil, moves)))
	if err != nil || !reflect.DeepEqual(got, moves) {
		t.Errorf("%+v, %v", got, err)
	}

	one, err := ReadMove(string(AppendMove(nil, &moves[0])))
	if err != nil || !reflect.DeepEqual(one, moves[0]) {
		t.Errorf("%+v, %v", one, err)
	}
	pools := []duly.PoolState{{Name: "default", Ready: true}, {Name: "orders"}}
	if got, err := ReadPools(string(AppendPools(nil, pools))); err != nil || !reflect.DeepEqual(got, pools) {
		t.Errorf("%+v, %v", got, err)
	}
	if namespace, to, err := ReadMoving(string(AppendMoving(nil, "shop", "orders")), Strict); err != nil || namespace != "shop" || to != "orders" {
		t.Errorf("%s, %s, %v", namespace, to, err)
	}
	if pool, err := ReadPlace(string(AppendPlace(nil, "orders")), Strict); err != nil || pool != "orders" {
		t.Errorf("%s, %v", pool, err)
	}
	if _, err := ReadPlace("{}", Strict); !errors.Is(err, duly.ErrInvalid) {
		t.Error(err)
	}

	for _, bad := range []string{"{}", `{"namespace":"a"}`, `{"to":"a"}`, `{"namespace":"a","to":"b","x":1}`, `{"namespace":1,"to":"b"}`} {
		if _, _, err := ReadMoving(bad, Strict); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
