package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/coppice-gc/coppice/client"
)

// finalizer keeps a Site until its files are deleted.
const finalizer = "example.com/files"

var (
	sites      = client.Resource{Group: "example.com", Plural: "sites"}
	configMaps = client.Resource{Plural: "configmaps"}
)

// spec is the spec of a Site.
type spec struct {
	// Pages is the number of ConfigMaps that the Site owns.
	Pages int `json:"pages"`
}

func specOf(site *client.Object) (s spec, err error) {
	if len(site.GetSpec()) > 0 {
		err = json.Unmarshal(site.GetSpec(), &s)
	}
	return s, err
}

// register registers the kind Site, unless it is registered, or the user may not register kinds.
func register(ctx context.Context, c client.Interface) error {
	_, err := c.Resource(client.KindsResource, "").Create(ctx, client.NewKindObject(client.Kind{
		Group: sites.Group, Kind: "Site", Plural: sites.Plural, Singular: "site", Scope: "Namespaced",
		Versions: []client.KindVersion{{Name: "v1"}},
	}))
	if errors.Is(err, client.ErrForbidden) { // an operator has registered it, or the watch says that there is no such kind
		return nil
	}
	if errors.Is(err, client.ErrAlreadyExists) {
		return nil
	}
	return err
}

// files is where the files of Sites are. Its methods are idempotent.
type files interface {
	Create(site string) error
	Delete(site string) error
}

// directory has a directory for the files of each Site.
type directory string

// Create implements files.
func (d directory) Create(site string) error {
	return os.MkdirAll(filepath.Join(string(d), site), 0o750)
}

// Delete implements files.
func (d directory) Delete(site string) error { return os.RemoveAll(filepath.Join(string(d), site)) }
