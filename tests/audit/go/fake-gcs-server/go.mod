module fulgurite/audit/fake-gcs-server

go 1.24

require github.com/fsouza/fake-gcs-server v1.56.1
