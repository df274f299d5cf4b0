module fulgurite/clients/rclone

go 1.26

require github.com/rclone/rclone v1.76.0
