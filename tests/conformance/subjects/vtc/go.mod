module schedspec/vtc

go 1.21
