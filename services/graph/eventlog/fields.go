package eventlog

import "github.com/coppice-gc/coppice/internal/codec/commitcodec"

// Field numbers of coppice.v1.Commit and of the messages in it.
const (
	commitRealmID       = commitcodec.CommitRealmID
	commitID            = commitcodec.CommitID
	commitPrevious      = commitcodec.CommitPrevious
	commitEpoch         = commitcodec.CommitEpoch
	commitTime          = commitcodec.CommitTime
	commitFirstRevision = commitcodec.CommitFirstRevision
	commitCommands      = 7
	commitEvents        = commitcodec.CommitEvents
	commitResources     = 9
	commitNamespaces    = 10

	commitSequence = commitcodec.CommitSequence
	commitKey      = commitcodec.CommitKey
	commitNewKey   = 16
	commitFormat   = commitcodec.CommitFormat

	newKeyNumber      = 1
	newKeyFingerprint = 2

	commandID         = 1
	commandActor      = 2
	commandVerb       = 3
	commandReply      = 4
	commandNote       = 5
	commandPrevious   = 6
	commandUnfinished = 7

	eventCommand          = 1
	eventReason           = 2
	eventCause            = 3
	eventCreated          = commitcodec.EventCreated
	eventUpdated          = commitcodec.EventUpdated
	eventMarked           = commitcodec.EventMarked
	eventOwnersRemoved    = commitcodec.EventOwnersRemoved
	eventFinalizerRemoved = commitcodec.EventFinalizerRemoved
	eventDeleted          = commitcodec.EventDeleted
	eventSession          = 10
	eventRealm            = commitcodec.EventRealm
	eventBrake            = 12
	eventReleased         = 13
	eventNotice           = 14

	objectNode = 1
	objectBody = 2

	markObject     = 1
	markTime       = 2
	markGrace      = 3
	markGeneration = 4
	markFinalizers = 5
	markAwaited    = 6

	columnObjects = commitcodec.ColumnObjects // in OwnerReferencesRemoved, FinalizerRemoved, ObjectsDeleted
	columnShared  = 2                         // references, finalizer, finalizers
	idUIDs        = commitcodec.IDUIDs
	idResources   = 2
	idNamespaces  = 3
	idNames       = 4
	idCauses      = 5
	sessionID     = 1
	sessionClosed = 2

	realmOrigin    = commitcodec.RealmOrigin
	realmPaused    = commitcodec.RealmPaused
	realmSince     = commitcodec.RealmSince
	originRealmID  = commitcodec.OriginRealmID
	originSequence = commitcodec.OriginSequence

	brakeResource = 1
	brakeSince    = 2
	brakeBase     = 3
	brakeCounted  = 4
	brakeTripped  = 5
	releasedUIDs  = 1

	noticeUIDs       = 1
	noticePolicy     = 2
	noticeGeneration = 3
	noticeGiven      = 4
	noticeEnds       = 5
	noticeAnswer     = 6
	answerActor      = 1
	answerReason     = 2
	answerUntil      = 3
)
