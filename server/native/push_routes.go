package native

import (
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

const (
	pushPath    = "/v1/{namespace}/push"
	targetsPath = pushPath + "/targets"
	targetPath  = targetsPath + "/{name}"
	targetBody  = 128 << 10 // a target may contain the certificates of authorities
)

// pushRoutes returns the routes of HTTP push.
func (a *API) pushRoutes() []route.Route {
	return []route.Route{
		{
			Method: "PUT", Path: targetPath, Access: auth.Admin, MaxBody: targetBody,
			Handler: a.changing(a.putTarget), Doc: putTargetDoc,
		},
		{
			Method: "GET", Path: targetsPath, Access: auth.Produce, Query: pageQuery,
			Handler: a.onTargets(a.targets), Doc: listTargetsDoc,
		},
		{Method: "GET", Path: targetPath, Access: auth.Produce, Handler: a.onTargets(a.target), Doc: getTargetDoc},

		{
			Method: "POST", Path: targetPath + "/test", Access: auth.Admin, MaxBody: noBody,
			Handler: a.onTargets(a.testTarget), Doc: testTargetDoc,
		},
		{
			Method: "POST", Path: targetPath + "/disable", Access: auth.Admin, MaxBody: noBody,
			Handler: a.changing(a.enable(false)), Doc: disableTargetDoc,
		},
		{
			Method: "POST", Path: targetPath + "/enable", Access: auth.Admin, MaxBody: noBody,
			Handler: a.changing(a.enable(true)), Doc: enableTargetDoc,
		},

		{
			Method: "POST", Path: targetPath + "/rotate", Access: auth.Admin, MaxBody: smallBody,
			Handler: a.changing(a.rotate), Doc: rotateTargetSecretDoc,
		},
		{
			Method: "GET", Path: targetPath + "/secret", Access: auth.Admin,
			Handler: a.onTargets(a.secret), Doc: getTargetSecretDoc,
		},
		{
			Method: "GET", Path: pushPath + "/secret", Access: auth.Admin,
			Handler: a.onTargets(a.secret), Doc: getPushSecretDoc,
		},
		{
			Method: "POST", Path: pushPath + "/secret/rotate", Access: auth.Admin, MaxBody: smallBody,
			Handler: a.changing(a.rotate), Doc: rotatePushSecretDoc,
		},

		{
			Method: "GET", Path: pushPath + "/hosts", Access: auth.Produce,
			Handler: a.onTargets(a.pushHosts), Doc: listPushHostsDoc,
		},
		{
			Method: "DELETE", Path: targetPath, Access: auth.Admin, MaxBody: noBody,
			Handler: a.changing(a.deleteTarget), Doc: deleteTargetDoc,
		},
	}
}
