module fulgurite/clients/mc

go 1.24

require github.com/minio/mc v0.0.0-20250313080218-cf909e1063a9
