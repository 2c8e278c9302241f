package wire

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func TestMovesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	moves := []contract.MoveState{
		{Placement: contract.Placement{Namespace: "shop", Pool: "orders", From: "default", Phase: contract.Draining,
			Since: time.UnixMilli(1234567890123).UTC()}, Queues: 3, Left: duly.Sizes{Ready: 5, Dead: 7}},
		{Placement: contract.Placement{Namespace: "a", Pool: "default"}},
	}
	got, err := MovesForm.ReadAnswer(string(MovesForm.Append(nil, moves)))
	if err != nil || !reflect.DeepEqual(got, moves) {
		t.Errorf("%+v, %v", got, err)
	}

	one, err := MoveForm.ReadAnswer(string(MoveForm.Append(nil, moves[0])))
	if err != nil || !reflect.DeepEqual(one, moves[0]) {
		t.Errorf("%+v, %v", one, err)
	}
	pools := []contract.PoolState{{Name: "default", Ready: true}, {Name: "orders"}}
	if got, err := PoolsForm.ReadAnswer(string(PoolsForm.Append(nil, pools))); err != nil ||
		!reflect.DeepEqual(got, pools) {
		t.Errorf("%+v, %v", got, err)
	}
	moving := Moving{Namespace: "shop", To: "orders"}
	if got, err := ReadMoving(string(MovingForm.Append(nil, moving))); err != nil || got != moving {
		t.Errorf("%+v, %v", got, err)
	}
	if pool, err := ReadPlace(string(PlaceForm.Append(nil, "orders"))); err != nil || pool != "orders" {
		t.Errorf("%s, %v", pool, err)
	}
	if _, err := ReadPlace("{}"); !errors.Is(err, duly.ErrInvalid) {
		t.Error(err)
	}

	for _, bad := range []string{"{}", `{"namespace":"a"}`, `{"to":"a"}`, `{"namespace":"a","to":"b","x":1}`,
		`{"namespace":1,"to":"b"}`} {
		if _, err := ReadMoving(bad); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
